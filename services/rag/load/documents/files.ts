/** The files of a load: the named files, and the files in the named directories. */
import { lstat, readdir, stat } from 'node:fs/promises'
import { extname, join, relative, resolve, sep } from 'node:path'
import { LoadError } from '../errors.ts'

type Format = 'markdown' | 'html' | 'text' | 'csv' | 'json lines'

export type SourceFile = {
  readonly path: string
  /** The file's path in the table: relative to the working directory, with slashes. */
  readonly source: string
  readonly format: Format
  readonly bytes: number
}

const formats: Readonly<Record<string, Format>> = {
  ...{ '.md': 'markdown', '.markdown': 'markdown', '.mdx': 'markdown' },
  ...{ '.html': 'html', '.htm': 'html', '.xhtml': 'html' },
  ...{ '.txt': 'text', '.text': 'text', '.rst': 'text', '.adoc': 'text' },
  ...{ '.csv': 'csv', '.tsv': 'csv', '.jsonl': 'json lines', '.ndjson': 'json lines' },
}
const known = Object.keys(formats).join(', ')

/** The maximum size of a file whose format must be read at once. */
const largestUnstreamed = 16_777_216

const isStreamed = (format: Format) => format === 'csv' || format === 'json lines'

/**
 * Returns each file once, sorted by name. In a directory, skips files of unknown formats. Refuses a named file of an
 * unknown format. @throws LoadError
 */
export async function sourceFiles(names: readonly string[], root: string): Promise<readonly SourceFile[]> {
  const files = new Map<string, SourceFile>()
  const take = async (path: string, isNamed: boolean) => {
    const format = formats[extname(path).toLowerCase()]
    const source = relative(root, path).split(sep).join('/')
    if (format === undefined) {
      if (isNamed) throw new LoadError(`${source}: unknown format; known extensions: ${known}`)
      return
    }
    const { size } = await stat(path)
    if (size > largestUnstreamed && !isStreamed(format)) {
      throw new LoadError(
        `${source}: has ${size} bytes; the maximum for a ${format} file is ${largestUnstreamed}. Split it`,
      )
    }
    files.set(source, { path, source, format, bytes: size })
  }
  for (const name of names) {
    const path = resolve(root, name)
    const found = await stat(path).catch((error: NodeJS.ErrnoException) => {
      throw new LoadError(`${name}: cannot be read (${error.code})`)
    })
    if (found.isDirectory()) for await (const file of filesIn(path)) await take(file, false)
    else if (found.isFile()) await take(path, true)
    else throw new LoadError(`${name}: is neither a file nor a directory`)
  }
  if (files.size === 0) throw new LoadError(`there is no file to load; known extensions: ${known}`)
  return [...files.values()].toSorted((one, other) => (one.source < other.source ? -1 : 1))
}

const passedOver = (name: string) => name.startsWith('.') || name === 'node_modules'

/** Does not follow links to directories, because they may form a loop. */
async function* filesIn(folder: string): AsyncGenerator<string> {
  const entries = await readdir(folder, { withFileTypes: true })
  for (const entry of entries.toSorted((one, other) => (one.name < other.name ? -1 : 1))) {
    if (passedOver(entry.name)) continue
    const path = join(folder, entry.name)
    if (entry.isDirectory()) yield* filesIn(path)
    else if (entry.isFile() || (entry.isSymbolicLink() && (await isLinkToFile(path)))) yield path
  }
}

async function isLinkToFile(path: string): Promise<boolean> {
  const link = await lstat(path)
  const target = await stat(path).catch(() => undefined)
  return link.isSymbolicLink() && target?.isFile() === true
}
