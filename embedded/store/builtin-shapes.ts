/**
 * How apply merges the fields that Espalier sets on Kubernetes' own kinds. The rules are the tags of their API types
 * (`listType`, `listMapKey`, `structType=atomic` in k8s.io/api).
 */
import { atomic, fields, listBy, type Shape } from './shape.ts'

const byName = listBy(['name'])
const conditions = listBy(['type'])

const environment = listBy(
  ['name'],
  fields({
    valueFrom: fields({ fieldRef: atomic, secretKeyRef: atomic, configMapKeyRef: atomic, resourceFieldRef: atomic }),
  }),
)
const containers = listBy(
  ['name'],
  fields({
    env: environment,
    ports: listBy(['containerPort', 'protocol'], fields({}), { protocol: 'TCP' }),
    volumeMounts: listBy(['mountPath']),
    volumeDevices: listBy(['devicePath']),
  }),
)
const podSpec = fields({
  containers,
  initContainers: containers,
  volumes: byName,
  imagePullSecrets: byName,
  nodeSelector: atomic,
  topologySpreadConstraints: listBy(['topologyKey', 'whenUnsatisfiable']),
})
const template = fields({ spec: podSpec })
const workload = fields({
  spec: fields({ selector: atomic, template }),
  status: fields({ conditions }),
})

export const shapes = {
  plain: fields({}),
  withConditions: fields({ status: fields({ conditions }) }),
  workload,
  pod: fields({ spec: podSpec, status: fields({ conditions, podIPs: listBy(['ip']) }) }),
  service: fields({
    spec: fields({ selector: atomic, ports: listBy(['port', 'protocol'], fields({}), { protocol: 'TCP' }) }),
    status: fields({ conditions }),
  }),
  claim: fields({ spec: fields({ selector: atomic, dataSource: atomic }), status: fields({ conditions }) }),
  disruptionBudget: fields({ spec: fields({ selector: atomic }), status: fields({ conditions }) }),
  volume: fields({ status: fields({}) }),
  networkPolicy: fields({ spec: fields({ podSelector: atomic }) }),
  event: fields({ involvedObject: atomic, related: atomic }),
} satisfies { [name: string]: Shape }
