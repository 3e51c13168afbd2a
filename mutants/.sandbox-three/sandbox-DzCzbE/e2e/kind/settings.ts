/** Which cluster is meant and where it keeps things, from the environment. Two of different names stand side by side. */
// @ts-nocheck

import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { KindError } from './errors.ts'

export const root = resolve(import.meta.dirname, '../..')

export type Settings = {
  /** The cluster's name: of its containers, its network and its context. */
  name: string
  /** What belongs to this cluster; all of it goes with `make kind-down`. */
  home: string
  /** Programs and images that were built, for any cluster; it stays. */
  cache: string
}

/** @throws KindError naming the variable and the rule */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const name = environment.ESPALIER_KIND_NAME || 'espalier'
  if (!/^[a-z][a-z0-9-]{0,29}$/.test(name)) {
    throw new KindError(
      `ESPALIER_KIND_NAME must begin with a letter and hold at most 30 lower-case letters, digits and hyphens, not ${JSON.stringify(name)}`,
    )
  }
  const cache = join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier', 'kind')
  return { name, home: resolve(environment.ESPALIER_KIND_HOME || join(root, '.kind')), cache }
}

export const pathsOf = ({ home }: Settings) => ({
  /** What a reader needs to know of the running cluster (cluster.ts). */
  cluster: join(home, 'cluster.json'),
  kubeconfig: join(home, 'kubeconfig'),
  log: join(home, 'up.log'),
  engine: join(home, 'engine'),
})
