/**
 * The objects that verify a copy of a backup. A volume is created from the snapshot, or is empty for a copy from the
 * archive. A pod on it runs `espalier instance verify` once. A network policy protects the copy, which contains a
 * tenant's data. The pod meets the "restricted" Pod Security Standard. Its only credentials are those that read the
 * archive, and its Postgres listens on no address.
 */
import type { Draft } from '../../../cluster/index.ts'
import { type Backup, childNames, labels } from '../../../crds/index.ts'
import { archiveTlsVariable, type RecoverySource } from '../../../instance/recovery/source.ts'
import { toArchive } from '../../endpoint/network-policy.ts'
import { archiveSourceMount, readerSecretData } from '../../member/archive/source.ts'
import { placementOf } from '../../member/pod/placement.ts'
import { podSecurityContext, securityContext } from '../../member/pod/security.ts'
import { childMetadata, type Owner, ownerOf } from '../../objects/ownership.ts'
import type { Trust } from '../../pki/trust.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { SnapshotFacts } from '../observed.ts'

export const verifierContainer = 'verify'
const dataPath = '/var/lib/espalier/data'
const terminationPath = '/dev/termination-log'
const readerVolume = ({ id }: Owner) => ({
  name: archiveSourceMount.name,
  secret: { secretName: childNames.verification(id), defaultMode: 0o400 },
})

/** The objects are labelled with the backup's id, so that the operator does not treat them as the database's. */
export const verificationOwner = ({ metadata }: Backup, id: string): Owner => ownerOf({ kind: 'Backup', metadata }, id)

const metadataOf = (owner: Owner) => childMetadata(owner, childNames.verification(owner.id), 'verification')
const selector = (owner: Owner) => ({ [labels.database]: owner.id, [labels.component]: 'verification' })

/** `snapshot`: undefined for a volume that starts empty. */
type CopyRequest = {
  owner: Owner
  snapshot: SnapshotFacts | undefined
  bytes: number
  storageClass: string | undefined
}

export const copyDraft = ({ owner, snapshot, bytes, storageClass }: CopyRequest): Draft<'PersistentVolumeClaim'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: metadataOf(owner),
  spec: {
    accessModes: ['ReadWriteOncePod'],
    ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
    resources: { requests: { storage: String(bytes) } },
    ...(snapshot && {
      dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: snapshot.name },
    }),
  },
})

/** Blocks ingress and egress. A copy from the archive may connect to the archive. */
export const networkPolicyDraft = (owner: Owner, recovers: boolean): Draft<'NetworkPolicy'> => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: metadataOf(owner),
  spec: {
    podSelector: { matchLabels: selector(owner) },
    policyTypes: ['Ingress', 'Egress'],
    ...(recovers ? { egress: toArchive } : {}),
  },
})

/** The Secret with the credentials that read the archive. */
export const readerDraft = (
  owner: Owner,
  source: RecoverySource,
  trust: Trust,
  now: () => number,
): Draft<'Secret'> => ({
  apiVersion: 'v1',
  kind: 'Secret',
  type: 'Opaque',
  metadata: metadataOf(owner),
  data: readerSecretData(owner.id, source, trust, now),
})

/** `recovery`: the source in the archive; undefined if the volume already contains the data of a snapshot. */
export function verifierDraft(
  owner: Owner,
  image: string,
  pods: PodSettings,
  recovery: RecoverySource | undefined,
): Draft<'Pod'> {
  // The constraints that spread pods over nodes are only for databases.
  const { topologySpreadConstraints: _, terminationGracePeriodSeconds: __, ...placement } = placementOf(pods)
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: metadataOf(owner),
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: podSecurityContext,
      ...placement,
      containers: [
        {
          name: verifierContainer,
          image,
          command: ['espalier', 'instance', 'verify'],
          args: [
            ...['--data', dataPath, '--termination-message', terminationPath],
            ...(recovery === undefined ? [] : ['--recover', JSON.stringify(recovery)]),
          ],
          ...(recovery && { env: [{ name: archiveTlsVariable, value: archiveSourceMount.mountPath }] }),
          resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { cpu: '1', memory: '512Mi' } },
          securityContext,
          terminationMessagePath: terminationPath,
          terminationMessagePolicy: 'FallbackToLogsOnError',
          volumeMounts: [
            { name: 'data', mountPath: dataPath },
            { name: 'temporary', mountPath: '/tmp' },
            ...(recovery === undefined ? [] : [archiveSourceMount]),
          ],
        },
      ],
      volumes: [
        { name: 'data', persistentVolumeClaim: { claimName: childNames.verification(owner.id) } },
        { name: 'temporary', emptyDir: { sizeLimit: '100Mi' } },
        ...(recovery === undefined ? [] : [readerVolume(owner)]),
      ],
    },
  } satisfies Draft<'Pod'>
}
