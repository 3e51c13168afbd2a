/**
 * The second container of a Postgres pod: `espalier instance agent`. It samples Postgres and its volume, and limits
 * Postgres's log. It cannot delay or harm Postgres: its resources are small, and on the data volume it can write only
 * to the log directory. A failed liveness probe restarts only this container. The container has no readiness probe.
 */
import type { StatefulSet } from '../../../cluster/index.ts'
import { labels, type SizeShape } from '../../../crds/index.ts'
import { agentPort } from '../../../instance/agent/contract.ts'
import { logDirectory, logVariable } from '../../../instance/log/directory.ts'
import { type Archive, markersDirectory } from '../archive/settings.ts'
import { securityContext } from './security.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>
type Container = PodSpec['containers'][number]
type Volume = NonNullable<PodSpec['volumes']>[number]

const state = '/var/lib/espalier/agent'
const log = '/var/lib/espalier/log'

/** Keeps two hours of samples and Node's compile cache across restarts of the container. */
export const agentVolume = { name: 'agent', emptyDir: { sizeLimit: '16Mi' } } satisfies Volume

type Limits = { cpu: string; memory: string }
const limits: Limits = { cpu: '100m', memory: '96Mi' }
/**
 * The agent encrypts the data that it sends, but does not compress them. It buffers some pieces of WAL and a part of a
 * base backup.
 */
const archivingLimits: Limits = { cpu: '1', memory: '192Mi' }

/** A pod has the quality of service class Guaranteed only if the requests of every container equal its limits. */
const resources = ({ qosClass }: SizeShape, limits: Limits): Container['resources'] => ({
  requests: qosClass === 'guaranteed' ? limits : { cpu: '5m', memory: '48Mi' },
  limits,
})

type AgentRequest = {
  image: string
  shape: SizeShape
  data: string
  tls: string
  /** Absent if the member does not archive. */
  archive: Archive | undefined
}

const archiveTls = '/etc/espalier/archive'

/**
 * The marker files are in an emptyDir, so a new pod has none. Postgres repeats `archive_command` for a file until the
 * file's marker exists.
 */
export const archiveVolumes = (secretName: string): Volume[] => [
  { name: 'archive-tls', secret: { secretName, defaultMode: 0o400 } },
  { name: 'archived', emptyDir: { sizeLimit: '16Mi' } },
]

const archiveArguments = ({ url }: Archive): string[] => [
  ...['--archive', url, '--archive-tls', archiveTls, '--archive-markers', markersDirectory],
]

const archiveMounts = [
  { name: 'archive-tls', mountPath: archiveTls, readOnly: true },
  { name: 'archived', mountPath: markersDirectory },
]

export const agentContainer = ({ image, shape, data, tls, archive }: AgentRequest): Container => ({
  name: 'agent',
  image,
  command: ['espalier', 'instance', 'agent'],
  args: [
    ...['--id', '$(INSTANCE_ID)', '--host', '$(POD_IP)', '--data', data, '--tls', tls, '--state', state],
    ...(archive === undefined ? [] : archiveArguments(archive)),
  ],
  env: [
    // The variable reads the pod's label, so the containers of all instances of a size are equal. The operator's cache
    // then stores them once.
    {
      name: 'INSTANCE_ID',
      valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: `metadata.labels['${labels.database}']` } },
    },
    { name: 'POD_IP', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } },
    { name: 'NODE_COMPILE_CACHE', value: `${state}/compiled` },
    { name: 'NODE_OPTIONS', value: '--max-semi-space-size=1' },
    { name: logVariable, value: log },
  ],
  ports: [{ name: 'agent', containerPort: agentPort, protocol: 'TCP' }],
  resources: archive === undefined ? resources(shape, limits) : resources(shape, archivingLimits),
  securityContext,
  livenessProbe: {
    httpGet: { path: '/healthz', port: agentPort, scheme: 'HTTPS' },
    initialDelaySeconds: 30,
    periodSeconds: 60,
    timeoutSeconds: 5,
    failureThreshold: 3,
  },
  terminationMessagePolicy: 'FallbackToLogsOnError',
  volumeMounts: [
    { name: 'data', mountPath: data, readOnly: true },
    { name: 'data', mountPath: log, subPath: logDirectory },
    { name: 'tls', mountPath: tls, readOnly: true },
    { name: 'agent', mountPath: state },
    ...(archive === undefined ? [] : archiveMounts),
  ],
})
