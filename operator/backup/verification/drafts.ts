/**
 * What a copy of a backup is checked with: a volume out of its snapshot; a pod on it that runs `espalier instance verify` once; and a fence
 * around that, since what a copy holds is a tenant's. The pod meets the "restricted" Pod Security Standard, has no credentials, and
 * Postgres in it listens nowhere.
 */
import type { Draft } from '../../../cluster/index.ts'
import { type Backup, childNames, labels } from '../../../crds/index.ts'
import { placementOf } from '../../member/pod/placement.ts'
import { podSecurityContext, securityContext } from '../../member/pod/security.ts'
import { childMetadata, type Owner, ownerOf } from '../../objects/ownership.ts'
import type { PodSettings } from '../../pod-settings.ts'
import type { SnapshotFacts } from '../observed.ts'

export const verifierContainer = 'verify'
const dataPath = '/var/lib/espalier/data'
const terminationPath = '/dev/termination-log'

/** Its children are found by the backup's own id, so that nobody takes them for the database's. */
export const verificationOwner = ({ metadata }: Backup, id: string): Owner => ownerOf({ kind: 'Backup', metadata }, id)

const metadataOf = (owner: Owner) => childMetadata(owner, childNames.verification(owner.id), 'verification')
const selector = (owner: Owner) => ({ [labels.database]: owner.id, [labels.component]: 'verification' })

type CopyRequest = { owner: Owner; snapshot: SnapshotFacts; bytes: number; storageClass: string | undefined }

export const copyDraft = ({ owner, snapshot, bytes, storageClass }: CopyRequest): Draft<'PersistentVolumeClaim'> => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: metadataOf(owner),
  spec: {
    accessModes: ['ReadWriteOncePod'],
    ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
    resources: { requests: { storage: String(bytes) } },
    dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: snapshot.name },
  },
})

/** Nothing comes in, and nothing goes out. */
export const fenceDraft = (owner: Owner): Draft<'NetworkPolicy'> => ({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  metadata: metadataOf(owner),
  spec: { podSelector: { matchLabels: selector(owner) }, policyTypes: ['Ingress', 'Egress'] },
})

export function verifierDraft(owner: Owner, image: string, pods: PodSettings): Draft<'Pod'> {
  // Spread is for databases.
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
          args: ['--data', dataPath, '--termination-message', terminationPath],
          resources: { requests: { cpu: '50m', memory: '128Mi' }, limits: { cpu: '1', memory: '512Mi' } },
          securityContext,
          terminationMessagePath: terminationPath,
          terminationMessagePolicy: 'FallbackToLogsOnError',
          volumeMounts: [
            { name: 'data', mountPath: dataPath },
            { name: 'temporary', mountPath: '/tmp' },
          ],
        },
      ],
      volumes: [
        { name: 'data', persistentVolumeClaim: { claimName: childNames.verification(owner.id) } },
        { name: 'temporary', emptyDir: { sizeLimit: '100Mi' } },
      ],
    },
  } satisfies Draft<'Pod'>
}
