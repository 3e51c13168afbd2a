/**
 * The StatefulSet of one member: one Postgres pod, with its agent (agent.ts), on the volume that the operator created.
 * The StatefulSet has no claim template, so it can never create an empty volume. Its update strategy is `OnDelete`, so
 * a new template restarts nothing. When a restart is due, the operator deletes the pod. The operator applies a template
 * of a new release, or with another image, only at that time (plan/template.ts).
 *
 * The pod meets the "restricted" Pod Security Standard. The image defines the stop signal (STOPSIGNAL SIGINT, the fast
 * shutdown). The template does not set `lifecycle.stopSignal`: a cluster without the feature gate ContainerStopSignals
 * drops this field, so the template would always differ.
 */
import type { StatefulSet } from '../../../cluster/index.ts'
import { childNames, labels, type PinnedSize, type SizeShape } from '../../../crds/index.ts'
import { logDirectory, logVariable } from '../../../instance/log/directory.ts'
import { archiveTlsVariable } from '../../../instance/recovery/source.ts'
import { dataDirectory } from '../../../instance/volume.ts'
import { canonicalQuantity } from '../../../values/quantity.ts'
import { childLabels, childMetadata } from '../../objects/ownership.ts'
import { digestOf, draftAnnotation, stamped } from '../../objects/up-to-date.ts'
import type { PodSettings } from '../../pod-settings.ts'
import { postgresCommand, postgresPort } from '../../postgres/configuration.ts'
import { type Archive, markersDirectory, markersVariable } from '../archive/settings.ts'
import { archiveSourceMount } from '../archive/source.ts'
import { type Member, memberLabels } from '../member.ts'
import { podSelector, type Role } from './addresses.ts'
import { agentContainer, agentVolume, archiveVolumes } from './agent.ts'
import { placementOf } from './placement.ts'
import { podSecurityContext, securityContext } from './security.ts'
import { startCommand } from './start.ts'
import { walProbeAnnotation, walProbeCommand, walProbeTiming } from './wal-probe.ts'

type Draft = Omit<StatefulSet, 'status'>
type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>
type Container = PodSpec['containers'][number]

/**
 * Pod annotation: the size that the pod was started with. If this size differs from the database's size, the operator
 * restarts the pod.
 */
export const sizeAnnotation = 'espalier.dev/size'
/**
 * Pod annotation: the uid of the volume claim that the pod was created for. If this uid differs from the claim's uid,
 * the operator restarts the pod.
 */
export const volumeAnnotation = 'espalier.dev/volume'
/**
 * Pod annotation: a digest of the template that the pod was created from. If the template is newer, the operator
 * replaces a pod that does not run.
 */
export const templateAnnotation = 'espalier.dev/template'
/** Pod annotation: the image as configured in the installation. The pod may run it by digest. */
export const imageAnnotation = 'espalier.dev/image'
/** Pod annotation: a digest of the last restart request. */
export const restartAnnotation = 'espalier.dev/restart'
/** Pod annotation: the maintenance window of the pod's last restart. */
export const maintenanceAnnotation = 'espalier.dev/maintenance'
/** Pod annotation, `true`: the pod's agent archives. */
export const archivesAnnotation = 'espalier.dev/archives'
export const prepareContainer = 'prepare'
export const postgresContainer = 'postgres'

const paths = {
  data: '/var/lib/espalier/data',
  configuration: '/etc/espalier/configuration',
  tls: '/etc/espalier/tls',
  sharedMemory: '/dev/shm',
  temporary: '/tmp',
  wal: `/var/lib/espalier/data/${dataDirectory}/pg_wal`,
  walProbeLock: '/dev/shm/espalier-wal-probe',
  log: `/var/lib/espalier/data/${logDirectory}`,
} as const

export const sizeText = (size: PinnedSize): string => `${size.name}-v${size.version}`

const resources = (shape: SizeShape): Container['resources'] => ({
  requests: { cpu: canonicalQuantity(shape.cpuRequest), memory: canonicalQuantity(shape.memoryRequest) },
  limits: { cpu: canonicalQuantity(shape.cpuLimit), memory: canonicalQuantity(shape.memoryLimit) },
})

const volumeMounts: Container['volumeMounts'] = [
  { name: 'data', mountPath: paths.data },
  { name: 'configuration', mountPath: paths.configuration, readOnly: true },
  { name: 'tls', mountPath: paths.tls, readOnly: true },
  { name: 'shared-memory', mountPath: paths.sharedMemory },
  { name: 'temporary', mountPath: paths.temporary },
]

const prepare = (image: string, shape: SizeShape, recovers: boolean): Container => ({
  name: prepareContainer,
  image,
  command: ['espalier', 'instance', 'prepare'],
  args: ['--data', paths.data, '--configuration', paths.configuration, '--tls', paths.tls],
  // A variable, because an older image would not start with an unknown argument.
  env: [
    { name: logVariable, value: paths.log },
    ...(recovers ? [{ name: archiveTlsVariable, value: archiveSourceMount.mountPath }] : []),
  ],
  resources: resources(shape),
  securityContext,
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts: recovers ? [...volumeMounts, archiveSourceMount] : volumeMounts,
})

const archiveSourceVolume = (secretName: string) => ({
  name: archiveSourceMount.name,
  secret: { secretName, optional: true, defaultMode: 0o400 },
})

const markers = { name: 'archived', mountPath: markersDirectory } as const

const postgres = (image: string, shape: SizeShape, archives: boolean): Container => ({
  name: postgresContainer,
  image,
  command: startCommand(paths.data, postgresCommand(paths.data)),
  env: [
    { name: 'POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } },
    ...(archives ? [{ name: markersVariable, value: markersDirectory }] : []),
  ],
  ports: [{ name: 'postgres', containerPort: postgresPort, protocol: 'TCP' }],
  resources: resources(shape),
  securityContext,
  // Crash recovery may take long. The postmaster listens during recovery, so neither probe restarts the container.
  startupProbe: { tcpSocket: { port: postgresPort }, periodSeconds: 1, failureThreshold: 600, timeoutSeconds: 1 },
  // A dead postmaster needs no probe: the container ends with it.
  readinessProbe: { exec: { command: walProbeCommand(paths.wal, paths.walProbeLock) }, ...walProbeTiming },
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts: archives ? [...volumeMounts, { ...markers, readOnly: true }] : volumeMounts,
})

/** The restarts that were requested before the pod was created, as annotated on the pod. */
export type RestartAnnotations = { restart: string | undefined; maintenance: string | undefined }

type StatefulSetRequest = Member & {
  image: string
  size: PinnedSize
  shape: SizeShape
  /** The uid of the volume claim. */
  volume: string
  suspended: boolean
  pods: PodSettings
  /** The archive that the pod's agent writes to; absent if the agent does not archive. */
  archive?: Archive | undefined
  /** The volume was recovered from the archive. The pod mounts the recovery certificate if its Secret exists. */
  recovers?: boolean
  role: Role
}

const podSpec = ({
  owner,
  incarnation,
  number,
  image,
  shape,
  pods,
  archive,
  recovers = false,
}: StatefulSetRequest): PodSpec => ({
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  securityContext: podSecurityContext,
  ...placementOf(pods),
  initContainers: [prepare(image, shape, recovers)],
  containers: [
    postgres(image, shape, archive !== undefined),
    agentContainer({ image, shape, data: paths.data, tls: paths.tls, archive }),
  ],
  volumes: [
    { name: 'data', persistentVolumeClaim: { claimName: childNames.claim(owner.id, incarnation, number) } },
    { name: 'configuration', configMap: { name: childNames.configuration(owner.id, incarnation, number) } },
    // Postgres requires that only the owner of the file can read the key. Kubernetes adds read access for the pod's
    // group.
    { name: 'tls', secret: { secretName: childNames.tls(owner.id), defaultMode: 0o400 } },
    { name: 'shared-memory', emptyDir: { medium: 'Memory', sizeLimit: canonicalQuantity(shape.sharedMemorySize) } },
    { name: 'temporary', emptyDir: { sizeLimit: canonicalQuantity(shape.temporaryDataSize) } },
    agentVolume,
    ...(archive === undefined ? [] : archiveVolumes(childNames.archive(owner.id, incarnation, number))),
    ...(recovers ? [archiveSourceVolume(childNames.archiveSource(owner.id, incarnation, number))] : []),
  ],
})

/** Returns the draft with the annotations of these restarts. */
export function withRestartAnnotations(draft: Draft, { restart, maintenance }: RestartAnnotations): Draft {
  if (draft.spec === undefined) return draft
  const { template } = draft.spec
  const annotations = {
    ...template.metadata?.annotations,
    ...(restart === undefined ? {} : { [restartAnnotation]: restart }),
    ...(maintenance === undefined ? {} : { [maintenanceAnnotation]: maintenance }),
  }
  return {
    ...draft,
    spec: { ...draft.spec, template: { ...template, metadata: { ...template.metadata, annotations } } },
  }
}

/** Returns the draft, scaled to zero. */
export const withoutPod = (draft: Draft): Draft => {
  const { [draftAnnotation]: _, ...annotations } = draft.metadata.annotations ?? {}
  return stamped({
    ...draft,
    metadata: { ...draft.metadata, annotations },
    ...(draft.spec && { spec: { ...draft.spec, replicas: 0 } }),
  })
}

export function statefulSetDraft(request: StatefulSetRequest): Draft {
  const { owner, incarnation, number, image, size, volume, suspended, role } = request
  const selector = podSelector(request)
  const metadata = childMetadata(owner, childNames.statefulSet(owner.id, incarnation, number), 'postgres')
  const spec = podSpec(request)
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { ...metadata, labels: { ...metadata.labels, ...memberLabels(request) } },
    spec: {
      replicas: suspended ? 0 : 1,
      serviceName: childNames.service(owner.id),
      updateStrategy: { type: 'OnDelete' },
      selector: { matchLabels: selector },
      template: {
        metadata: {
          labels: { ...childLabels(owner, 'postgres'), ...selector, [labels.role]: role },
          annotations: {
            [sizeAnnotation]: sizeText(size),
            [volumeAnnotation]: volume,
            [templateAnnotation]: digestOf(spec),
            [imageAnnotation]: image,
            [walProbeAnnotation]: 'true',
            ...(request.archive === undefined ? {} : { [archivesAnnotation]: 'true' }),
          },
        },
        spec,
      },
    },
  }
}
