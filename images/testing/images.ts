/** Shared by the tests of the built images. They run as root with runc, if ESPALIER_TEST_IMAGES is set. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { logged } from '../command.ts'
import { type Engine, findEngine, type Image } from '../engine.ts'
import { type Container, type ContainerRequest, startContainer } from './container.ts'

export const hasImages = Boolean(process.env.ESPALIER_TEST_IMAGES)

export type Opened = {
  image: Image
  root: string
  /** A directory for this test file. */
  directory(name: string): string
  start(request: Omit<ContainerRequest, 'image' | 'root' | 'work'>): Container
  /** Runs until it exits. */
  run(request: Omit<ContainerRequest, 'image' | 'root' | 'work'>): Promise<{ code: number; output: string }>
  close(): Promise<void>
}

async function withEngine<T>(use: (engine: Engine) => Promise<T>): Promise<T> {
  const directory = mkdtempSync(join(tmpdir(), 'espalier-image-test-'))
  try {
    return await use(await findEngine(logged(join(directory, 'log'))))
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

export const isBuilt = (name: string): Promise<boolean> =>
  withEngine(async engine => (await engine.inspect(name)) !== undefined)

/** Opens an image; closing it ends everything that was started. */
export async function openImage(name: string): Promise<Opened> {
  const work = mkdtempSync(join(tmpdir(), 'espalier-image-test-'))
  const engine = await findEngine(logged(join(work, 'log')))
  const image = await engine.inspect(name)
  if (image === undefined) throw new Error(`there is no ${name}: make images`)
  const { directory: root, release } = await engine.unpack(name)
  const containers = new Set<Container>()
  const start: Opened['start'] = request => {
    const container = startContainer({ ...request, image, root, work })
    containers.add(container)
    return container
  }
  return {
    image,
    root,
    directory: label => {
      const path = join(work, label)
      mkdirSync(path)
      return path
    },
    start,
    run: async request => {
      const container = start(request)
      const code = await container.exited
      return { code, output: container.output() }
    },
    close: async () => {
      for (const container of containers) container.remove()
      await release()
      rmSync(work, { recursive: true, force: true })
    },
  }
}

/** Polls until the condition holds. @throws if it does not before the deadline */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: () => string,
  deadlineMs = 30_000,
): Promise<void> {
  const end = performance.now() + deadlineMs
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`not within ${deadlineMs} ms: ${what()}`)
    await new Promise(resolve => setTimeout(resolve, 10))
  }
}
