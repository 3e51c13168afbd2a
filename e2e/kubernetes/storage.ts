/** All storage on the cluster and its node, to find leftovers: objects, images in the driver's pool, and mounts. */
import { stringify } from 'yaml'
import { labels } from '../../crds/index.ts'
import type { KindProvider } from '../providers/kind.ts'

const pool = '/var/lib/espalier-csi/pool'

const kinds = [
  'persistentvolumeclaims',
  'persistentvolumes',
  'volumesnapshots.snapshot.storage.k8s.io',
  'volumesnapshotcontents.snapshot.storage.k8s.io',
]
/** The objects of one database or branch. */
const parts = [
  ...kinds.slice(0, 3),
  ...['statefulsets.apps', 'pods', 'services', 'configmaps', 'secrets', 'networkpolicies.networking.k8s.io'],
  ...['backups.espalier.dev', 'poddisruptionbudgets.policy'],
]

const lines = (text: string): string[] => text.split('\n').filter(line => line !== '')
const format = 'jsonpath={range .items[*]}{.kind} {.metadata.namespace}/{.metadata.name}{"\\n"}{end}'

/** All objects, of any owner. */
export async function everyImage({ kubectl, onNode }: KindProvider): Promise<string[]> {
  const objects = await Promise.all(kinds.map(kind => kubectl(['get', kind, '-A', '-o', format])))
  const images = await onNode(`cd ${pool} && find volumes snapshots -mindepth 1 -maxdepth 1`)
  // With the number of each mount, because a mount that appears twice is a fault.
  const mounts = await onNode(`findmnt -rno TARGET | grep -E 'csi.espalier.dev|espalier-csi|plugins' | sort | uniq -c`)
  return [...objects, images, mounts].flatMap(lines).sort()
}

/** Objects with the id of a database or branch. */
export async function remainingOf({ kubectl }: KindProvider, id: string): Promise<string[]> {
  const list = ['get', parts.join(','), '-A', '-l', `${labels.database}=${id}`, '-o', format]
  return lines(await kubectl(list))
}

/** Fills the pool until this many bytes are free. The returned function frees the space. */
export async function fillPool({ onNode }: KindProvider, free: number): Promise<() => Promise<void>> {
  const ballast = `${pool}/ballast`
  const available = Number(await onNode(`df -B1 --output=avail ${pool} | tail -1`))
  await onNode(`fallocate -l ${available - Math.ceil(free)} ${ballast}`)
  return async () => void (await onNode(`rm -f ${ballast}`))
}

export const poolBytes = async ({ onNode }: KindProvider): Promise<number> =>
  Number(await onNode(`df -B1 --output=size ${pool} | tail -1`))

/** Limits a namespace with a quota. Resolves when the quota is enforced. The returned function removes it. */
export async function limit(
  { kubectl }: KindProvider,
  namespace: string,
  hard: Record<string, string>,
): Promise<() => Promise<void>> {
  const name = 'e2e-limit'
  const quota = { apiVersion: 'v1', kind: 'ResourceQuota', metadata: { name, namespace }, spec: { hard } }
  await kubectl(['apply', '-f', '-'], stringify(quota))
  await kubectl(['wait', '-n', namespace, `quota/${name}`, '--for=jsonpath={.status.hard}', '--timeout=60s'])
  return async () => void (await kubectl(['delete', `quota/${name}`, '-n', namespace, '--ignore-not-found']))
}
