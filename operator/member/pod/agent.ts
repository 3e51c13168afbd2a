/**
 * The second container of a Postgres pod: `espalier instance agent`, which samples what Postgres and its volume are like, and bounds
 * Postgres's log. It can neither hold up nor hurt Postgres: it has little to spend, no right to write to the volume but to the
 * directory of the log, a probe that restarts it alone, and nothing asks whether it is ready.
 */
import type { StatefulSet } from '../../../cluster/index.ts'
import { labels, type SizeShape } from '../../../crds/index.ts'
import { agentPort } from '../../../instance/agent/contract.ts'
import { logDirectory, logVariable } from '../../../instance/log/directory.ts'
import { securityContext } from './security.ts'

type PodSpec = NonNullable<NonNullable<StatefulSet['spec']>['template']['spec']>
type Container = PodSpec['containers'][number]
type Volume = NonNullable<PodSpec['volumes']>[number]

const state = '/var/lib/espalier/agent'
const log = '/var/lib/espalier/log'

/** What it keeps over a restart of its own: two hours of samples, and its modules as JavaScript. */
export const agentVolume = { name: 'agent', emptyDir: { sizeLimit: '16Mi' } } satisfies Volume

const limits = { cpu: '100m', memory: '96Mi' } as const

/** A pod is of the class that its size promises only if every container of it is: what is requested is the limit then. */
const resources = ({ qosClass }: SizeShape): Container['resources'] => ({
  requests: qosClass === 'guaranteed' ? limits : { cpu: '5m', memory: '48Mi' },
  limits,
})

type AgentRequest = { image: string; shape: SizeShape; data: string; tls: string }

export const agentContainer = ({ image, shape, data, tls }: AgentRequest): Container => ({
  name: 'agent',
  image,
  command: ['espalier', 'instance', 'agent'],
  args: ['--id', '$(INSTANCE_ID)', '--host', '$(POD_IP)', '--data', data, '--tls', tls, '--state', state],
  env: [
    // Of the pod's label, so that the containers of all instances of a size are the same: the operator keeps them once.
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
  resources: resources(shape),
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
  ],
})
