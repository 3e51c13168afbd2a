/**
 * Servers that have not loaded the current trusted authorities. Either their certificate is not issued under these yet,
 * or their database or branch runs and was not observed to present it. A stopped server loads the current state when it
 * starts.
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

/** An owner that is being deleted never starts again. A database whose deletion is blocked still serves. */
function isEnding(owner: ManagedDatabase | Branch): boolean {
  if (owner.kind === 'Branch') return branchPhase(owner) === 'deleting' || isFailedCreation(owner)
  return isTeardownBegun(owner)
}

/**
 * The required state of a server. `mountedBefore`: everything written before this time is mounted in every pod. In ms.
 */
type Question = { trustDigest: string; mountedBefore: number }

function isBehind(caches: Caches, owner: ManagedDatabase | Branch, { trustDigest, mountedBefore }: Question): boolean {
  const { namespace = '', labels: objectLabels } = owner.metadata
  const id = objectLabels?.[labels.id]
  if (id === undefined || isEnding(owner)) return false
  // A server without observed state may not have loaded it.
  if (!caches.isServed(namespace)) return true
  const secret = caches.secrets.get({ namespace, name: childNames.tls(id) })
  if (secret === undefined) return false
  if (!isUnder(secret, trustDigest)) return true
  const pods = podsOf(caches, id, namespace)
  // A starting server reads the mount, which may be older than the Secret.
  return pods.some(pod =>
    podFacts(pod).address === undefined ? (issuedAt(secret) ?? 0) > mountedBefore : !isLoaded(secret),
  )
}

/** The servers' names, for messages. `certificates`: Espalier's own certificates, which the operator issues. */
export function serversBehind(
  caches: Caches,
  certificates: readonly SystemCertificate[],
  question: Question,
): string[] {
  const own = certificates.filter(certificate => {
    const name = systemCertificates[certificate]
    const secret = caches.systemSecrets.get({ namespace: systemNamespace, name })
    const isManaged = secret?.metadata.labels?.[labels.managedBy] === managedByEspalier
    return secret !== undefined && isManaged && !isUnder(secret, question.trustDigest)
  })
  const owners = [...caches.databases.list(), ...caches.branches.list()]
  const behind = owners.filter(owner => isBehind(caches, owner, question))
  return [...own, ...behind.map(({ metadata }) => `${metadata.namespace}/${metadata.name}`)]
}
