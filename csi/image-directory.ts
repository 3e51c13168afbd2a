/**
 * One directory of images. Each image has its own directory, with its metadata in about.json. An entry appears by one
 * rename of a complete, flushed directory, and disappears by one rename, so that after a crash an entry exists
 * completely or not at all. A directory named `.new-*` is unfinished; the next process deletes it.
 */
import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { z } from 'zod'

const image = 'image'
const about = 'about.json'
const unfinished = '.new-'
const idPattern = /^(vol|snap)-[0-9a-f]{32}$/

const isMissing = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT'

export async function flush(path: string): Promise<void> {
  const handle = await open(path, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export class ImageDirectory<T extends { id: string; bytes: number }> {
  readonly #path: string
  readonly #schema: z.ZodType<T>

  private constructor(path: string, schema: z.ZodType<T>) {
    this.#path = path
    this.#schema = schema
  }

  static async open<T extends { id: string; bytes: number }>(
    path: string,
    schema: z.ZodType<T>,
  ): Promise<ImageDirectory<T>> {
    await mkdir(path, { recursive: true, mode: 0o700 })
    for (const name of await readdir(path)) {
      if (name.startsWith(unfinished)) await rm(join(path, name), { recursive: true, force: true })
    }
    return new ImageDirectory(path, schema)
  }

  imageOf(id: string): string {
    return join(this.#path, id, image)
  }

  async find(id: string): Promise<T | undefined> {
    // An id is part of a path, so an id in another form must not reach the file system.
    if (!idPattern.test(id)) return undefined
    try {
      const { size: bytes } = await stat(this.imageOf(id))
      const content = JSON.parse(await readFile(join(this.#path, id, about), 'utf8'))
      return this.#schema.parse({ ...content, bytes })
    } catch (error) {
      if (isMissing(error)) return undefined
      throw error
    }
  }

  async list(): Promise<T[]> {
    const ids = (await readdir(this.#path)).filter(name => idPattern.test(name)).sort()
    return (await Promise.all(ids.map(id => this.find(id)))).filter(found => found !== undefined)
  }

  /** Creates an entry. `fill` writes its image to the given path. */
  async publish({ bytes: _, ...content }: T, fill: (path: string) => Promise<void>): Promise<void> {
    const scratch = this.#scratchPath()
    await mkdir(scratch, { mode: 0o700 })
    try {
      const path = join(scratch, image)
      await fill(path)
      await flush(path)
      await writeFile(join(scratch, about), JSON.stringify(content), { mode: 0o600, flush: true })
      await flush(scratch)
      await rename(scratch, join(this.#path, content.id))
      await flush(this.#path)
    } catch (error) {
      await rm(scratch, { recursive: true, force: true })
      throw error
    }
  }

  /** Deletes an entry. Does nothing if it does not exist. */
  async remove(id: string): Promise<void> {
    if (!idPattern.test(id)) return
    const scratch = this.#scratchPath()
    try {
      await rename(join(this.#path, id), scratch)
    } catch (error) {
      if (isMissing(error)) return
      throw error
    }
    await flush(this.#path)
    await rm(scratch, { recursive: true, force: true })
  }

  #scratchPath(): string {
    return join(this.#path, `${unfinished}${randomBytes(8).toString('hex')}`)
  }
}
