/** Paths of files that are kept between builds. All of them can be created again. */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'

export const root = resolve(import.meta.dirname, '..')

/** Archives of the images, for clusters to load. */
export const archivesDirectory = (env: NodeJS.ProcessEnv): string =>
  join(resolve(env.ESPALIER_KIND_HOME || join(root, '.kind')), 'images')

/** Downloads, and files made from them. */
export const cacheDirectory = (env: NodeJS.ProcessEnv): string =>
  join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier', 'images')
