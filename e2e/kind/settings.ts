/**
 * The name and directories of the cluster, from the environment. Clusters with different names can run at the same
 * time.
 */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { KindError } from './errors.ts'

export const root = resolve(import.meta.dirname, '../..')

export type Settings = {
  /** The cluster's name, also used for its containers, its network and its context. */
  name: string
  /** The cluster's files. `make kind-down` deletes all of them. */
  home: string
  /** Built programs and images for any cluster. They are not deleted. */
  cache: string
  /** Nodes in addition to the control-plane node. */
  workers: number
}

/** @throws KindError that names the variable and the rule */
export function readSettings(environment: NodeJS.ProcessEnv): Settings {
  const name = environment.ESPALIER_KIND_NAME || 'espalier'
  if (!/^[a-z][a-z0-9-]{0,29}$/.test(name)) {
    throw new KindError(
      `ESPALIER_KIND_NAME must begin with a letter and hold at most 30 lower-case letters, digits and hyphens, not ${JSON.stringify(name)}`,
    )
  }
  const workers = environment.ESPALIER_KIND_WORKERS || '0'
  if (!/^[0-3]$/.test(workers))
    throw new KindError(`ESPALIER_KIND_WORKERS must be a number from 0 to 3, not ${JSON.stringify(workers)}`)
  const cache = join(environment.XDG_CACHE_HOME || join(homedir(), '.cache'), 'espalier', 'kind')
  const home = resolve(environment.ESPALIER_KIND_HOME || join(root, '.kind'))
  return { name, home, cache, workers: Number(workers) }
}

export const pathsOf = ({ home }: Settings) => ({
  /** Describes the running cluster (cluster.ts). */
  cluster: join(home, 'cluster.json'),
  kubeconfig: join(home, 'kubeconfig'),
  log: join(home, 'up.log'),
  engine: join(home, 'engine'),
})
