/**
 * Which servers have not come to what is in force: those whose certificate has yet to be issued under it, and running
 * databases and branches that have not been seen to show theirs. One that does not run takes what is current when it starts.
 */
import {
  type Branch,
  branchPhase,
  childNames,
  isFailedCreation,
  isTeardownBegun,
  labels,
  type ManagedDatabase,
  managedByEspalier,
  systemNamespace,
} from '../../crds/index.ts'
import { type SystemCertificate, systemCertificates } from '../../sealing/credentials.ts'
import type { Caches } from '../caches.ts'
import { isLoaded, issuedAt, isUnder } from '../endpoint/certificate.ts'
import { podFacts, podsOf } from '../member/pod/pod.ts'

/** One that is torn down never starts again. A database whose deletion is held up serves. */
function isEnding(owner: ManagedDatabase | Branch): boolean {
  if (owner.kind === 'Branch') return branchPhase(owner) === 'deleting' || isFailedCreation(owner)
  return isTeardownBegun(owner)
}

/** What a server is asked about. `mountedBefore`: what was written until then is in every pod's mount, in ms. */
type Question = { mark: string; mountedBefore: number }

function isBehind(caches: Caches, owner: ManagedDatabase | Branch, { mark, mountedBefore }: Question): boolean {
  const { namespace = '', labels: marks } = owner.metadata
  const id = marks?.[labels.id]
  if (id === undefined || isEnding(owner)) return false
  // What is not known yet may be behind.
  if (!caches.isServed(namespace)) return true
  const secret = caches.secrets.get({ namespace, name: childNames.tls(id) })
  if (secret === undefined) return false
  if (!isUnder(secret, mark)) return true
  const pods = podsOf(caches, id, namespace)
  // One that starts yet reads what is mounted, which may be older than what stands in the Secret.
  return pods.some(pod =>
    podFacts(pod).address === undefined ? (issuedAt(secret) ?? 0) > mountedBefore : !isLoaded(secret),
  )
}

/** Their names, for people. `certificates`: those of Espalier's own that the operator issues. */
export function serversBehind(
  caches: Caches,
  certificates: readonly SystemCertificate[],
  question: Question,
): string[] {
  const own = certificates.filter(certificate => {
    const name = systemCertificates[certificate]
    const secret = caches.systemSecrets.get({ namespace: systemNamespace, name })
    const isOurs = secret?.metadata.labels?.[labels.managedBy] === managedByEspalier
    return secret !== undefined && isOurs && !isUnder(secret, question.mark)
  })
  const owners = [...caches.databases.list(), ...caches.branches.list()]
  const behind = owners.filter(owner => isBehind(caches, owner, question))
  return [...own, ...behind.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)]
}
