/**
 * Observes the verification of a backup. Reads the caches, or the cluster if the backup is being deleted.
 */
import type { AnyObject, Cluster, Pod } from '../../../cluster/index.ts'
import { type Backup, childNames, labels, type PgVersion } from '../../../crds/index.ts'
import type { Caches } from '../../caches.ts'
import { ownerKeyOf, ownerKindOf } from '../../objects/ownership.ts'
import type { VerificationFacts, VerifierEnd } from '../observed.ts'
import { verifierContainer } from './drafts.ts'

/** Kubernetes truncates a termination message to this length. */
const longestMessage = 4_096

export type VerificationKind = 'Pod' | 'PersistentVolumeClaim' | 'Secret' | 'NetworkPolicy'

/** In the order of deletion. The Secret contains the credentials that read the archive, for durable backups. */
export const kindsOf = ({ spec }: Backup): readonly VerificationKind[] =>
  spec.kind === 'durable'
    ? ['Pod', 'PersistentVolumeClaim', 'Secret', 'NetworkPolicy']
    : ['Pod', 'PersistentVolumeClaim', 'NetworkPolicy']

/** Objects without the labels and annotations of this verification are neither used nor changed. */
export const isOfVerification = ({ metadata }: Backup, object: Pick<AnyObject, 'metadata'>): boolean =>
  ownerKindOf(object) === 'Backup' &&
  ownerKeyOf(object) === `${metadata.namespace}/${metadata.name}` &&
  object.metadata.labels?.[labels.component] === 'verification'

const none: VerificationFacts = { hasObjects: false, claim: false, pod: undefined, hasSlot: false, target: undefined }

export async function verificationFacts(
  caches: Caches,
  cluster: Cluster,
  backup: Backup,
  id: string | undefined,
  source: { region: string; pgVersion: PgVersion } | undefined,
  hasSlot: (backup: Backup) => boolean,
): Promise<VerificationFacts> {
  if (id === undefined) return none
  const key = { namespace: backup.metadata.namespace, name: childNames.verification(id) }
  const own = <T extends Pick<AnyObject, 'metadata'>>(object: T | undefined): T | undefined =>
    object !== undefined && isOfVerification(backup, object) ? object : undefined
  const isDeleting = backup.metadata.deletionTimestamp !== undefined
  const [pod, claim, policy] = isDeleting
    ? await Promise.all([
        cluster.get('Pod', key),
        cluster.get('PersistentVolumeClaim', key),
        cluster.get('NetworkPolicy', key),
      ])
    : [caches.pods.get(key), caches.claims.get(key), caches.networkPolicies.get(key)]
  const verifier = own(pod)
  return {
    hasObjects: [verifier, own(claim), own(policy)].some(object => object !== undefined),
    claim: own(claim) !== undefined,
    pod: verifier && {
      isDeleting: verifier.metadata.deletionTimestamp !== undefined,
      madeAt: Date.parse(verifier.metadata.creationTimestamp ?? ''),
      end: endOf(verifier),
    },
    hasSlot: backup.status?.verification === 'pending' && hasSlot(backup),
    target: targetFor(caches, backup, source),
  }
}

/**
 * The version and region of the database, otherwise those in the backup's status. A backup of an earlier release has no
 * region in its status. Then the region is known only if the installation has exactly one.
 */
function targetFor(
  { regions }: Caches,
  { status }: Backup,
  source: { region: string; pgVersion: PgVersion } | undefined,
): VerificationFacts['target'] {
  if (status?.verification !== 'pending') return undefined
  const pgVersion = source?.pgVersion ?? status.pgVersion
  const all = regions.list()
  const name = source?.region ?? status.region
  const region = name === undefined ? (all.length === 1 ? all[0] : undefined) : regions.get({ name })
  return pgVersion === undefined || region === undefined ? undefined : { pgVersion, region }
}

function endOf({ status }: Pod): VerifierEnd | undefined {
  if (status?.phase !== 'Succeeded' && status?.phase !== 'Failed') return undefined
  const ended = status.containerStatuses?.find(({ name }) => name === verifierContainer)?.state?.terminated
  // A pod that was evicted by its node has no container statuses.
  const text = ended?.message ?? [status.reason, status.message].filter(text => text).join(': ')
  return { exitCode: ended?.exitCode ?? -1, message: text.trim().slice(0, longestMessage) }
}
