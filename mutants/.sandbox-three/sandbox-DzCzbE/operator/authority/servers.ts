/**
 * Which servers have not come to what is in force: those whose certificate has yet to be issued under it, and running
 * databases that have not been seen to show theirs. One that does not run takes what is current when it starts.
 */
// @ts-nocheck

import { childNames, labels, type ManagedDatabase, managedByEspalier, systemNamespace } from '../../crds/index.ts'
import { type SystemServer, systemCertificates } from '../../sealing/credentials.ts'
import type { Caches } from '../caches.ts'
import { conditionOf } from '../objects/conditions.ts'
import { isLoaded, issuedAt, isUnder } from '../workload/children/certificate.ts'
import { podFacts } from '../workload/pod.ts'

/** Reasons for which a database that is being deleted goes on serving. */
const heldBack = new Set(['DeletionProtected', 'HasBranches'])

/** One that is torn down never starts again. */
const isEnding = ({ metadata, status }: ManagedDatabase): boolean =>
  metadata.deletionTimestamp !== undefined && !heldBack.has(conditionOf(status, 'DeletionBlocked')?.reason ?? '')

/** What a server is asked about. `mountedBefore`: what was written until then is in every pod's mount, in ms. */
type Question = { mark: string; mountedBefore: number }

function isBehind(caches: Caches, database: ManagedDatabase, { mark, mountedBefore }: Question): boolean {
  const { namespace = '', labels: marks } = database.metadata
  const id = marks?.[labels.id]
  if (id === undefined || isEnding(database)) return false
  const secret = caches.secrets.get({ namespace, name: childNames.tls(id) })
  if (secret === undefined) return false
  if (!isUnder(secret, mark)) return true
  const pods = caches.pods.byIndex('database', id).filter(pod => pod.metadata.namespace === namespace)
  // One that starts yet reads what is mounted, which may be older than what stands in the Secret.
  return pods.some(pod =>
    podFacts(pod).address === undefined ? (issuedAt(secret) ?? 0) > mountedBefore : !isLoaded(secret),
  )
}

/** Their names, for people. `servers`: of Espalier's own, those whose certificates the operator issues. */
export function serversBehind(caches: Caches, servers: readonly SystemServer[], question: Question): string[] {
  const own = servers.filter(server => {
    const secret = caches.systemSecrets.get({ namespace: systemNamespace, name: systemCertificates[server] })
    const isOurs = secret?.metadata.labels?.[labels.managedBy] === managedByEspalier
    return secret !== undefined && isOurs && !isUnder(secret, question.mark)
  })
  const databases = caches.databases.list().filter(database => isBehind(caches, database, question))
  return [...own, ...databases.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)]
}
