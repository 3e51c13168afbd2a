/**
 * Bundles for images: the modules of a program and of its packages in a few files. Loading hundreds of small files
 * takes most of the processor time of a start (ADR 0105). The source files stay in the image, because modules find some
 * files by their own path (workers, protocol files, the console).
 */
import { dirname, relative } from 'node:path'
import type { Plugin } from 'rolldown'
import { ImageError } from './errors.ts'

/** Paths relative to the root of the product, without subdirectories. */
export const bundleDirectories = { espalier: 'bin/bundle', postgres: 'instance/bundle' } as const

/** The name of a bundle: the image that contains it. */
export type Bundled = keyof typeof bundleDirectories
const entries: Record<Bundled, string> = { espalier: 'bin/main.ts', postgres: 'instance/main.ts' }

/** Packages that find files beside their own. They are loaded from node_modules. */
const unbundled = [
  '@fastify/swagger',
  '@fastify/swagger-ui',
  '@grpc/grpc-js',
  'commander',
  'libpg-query',
  'pino',
  'thread-stream',
  'undici',
]
const isUnbundled = (id: string): boolean => unbundled.some(name => id === name || id.startsWith(`${name}/`))

const findsByPath = /\b__(dir|file)name\b|\bimport\.meta\b/

/**
 * The code of the module `path`, which is relative to the bundle's directory. Expressions compute the module's own path
 * in the image.
 */
function located(code: string, path: string): string {
  const resolved = (to: string) =>
    `process.getBuiltinModule('node:path').resolve(import.meta.dirname, ${JSON.stringify(to)})`
  const expressions: Record<string, string> = {
    url: `new URL(${JSON.stringify(path)}, import.meta.url).href`,
    filename: resolved(path),
    dirname: resolved(dirname(path)),
  }
  return code.replaceAll(/\bimport\.meta\.(url|filename|dirname)\b/g, (all, name: string) => expressions[name] ?? all)
}

/** Espalier's modules keep their own paths. A package that needs its own path must not be bundled. */
const keepPaths = (root: string, directory: string): Plugin => ({
  name: 'keep-paths',
  transform(code, id) {
    // The ids of Rolldown's own modules begin with \0.
    if (id.startsWith('\0') || !findsByPath.test(code)) return null
    const path = relative(root, id)
    if (path.includes('node_modules/'))
      throw new ImageError(`${path} uses its own path: add its package to images/bundle.ts`)
    return located(code, relative(directory, path))
  },
})

/**
 * Writes the bundle of a program to `to`. `root` is the checkout. The same sources give the same bytes.
 * @throws ImageError if a package would not work in a bundle
 */
export async function writeBundle(program: Bundled, root: string, to: string): Promise<void> {
  const { rolldown } = await import('rolldown')
  const build = await rolldown({
    cwd: root,
    input: { main: entries[program] },
    platform: 'node',
    external: isUnbundled,
    plugins: [keepPaths(root, bundleDirectories[program])],
    onLog: (_level, { message }) => {
      throw new ImageError(`the bundle of ${program}: ${message}`)
    },
  })
  try {
    await build.write({ dir: to, format: 'esm', entryFileNames: '[name].js', chunkFileNames: '[name]-[hash].js' })
  } finally {
    await build.close()
  }
}
