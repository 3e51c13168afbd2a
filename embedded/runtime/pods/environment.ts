/**
 * The environment of a container: the variables of its spec and image, and a few fixed names. It contains nothing from
 * the runtime's own environment, which may contain secrets. Pure.
 */
import type { Pod } from '../../../cluster/index.ts'
import { RuntimeError } from '../errors.ts'
import { expandReferences } from './expansion.ts'
import { type References, valueAt, valuesOf } from './references.ts'

export type PodSpec = NonNullable<Pod['spec']>
export type Container = PodSpec['containers'][number]
type EnvironmentVariable = NonNullable<Container['env']>[number]

const systemPath = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']
/** Names that a container cannot set: they identify processes. */
const reservedPrefix = 'ESPALIER_RUNTIME_'

const subscript = /^metadata\.(labels|annotations)\['([^']+)'\]$/

/** A field of the downward API. @throws RuntimeError `Unsupported` for other fields */
export function fieldOf(pod: Pod, podIp: string, path: string): string {
  const [, map, key] = subscript.exec(path) ?? []
  if (key !== undefined) return pod.metadata[map === 'labels' ? 'labels' : 'annotations']?.[key] ?? ''
  switch (path) {
    case 'metadata.name':
      return pod.metadata.name
    case 'metadata.namespace':
      return pod.metadata.namespace ?? ''
    case 'metadata.uid':
      return pod.metadata.uid ?? ''
    case 'spec.nodeName':
      return pod.spec?.nodeName ?? ''
    case 'spec.serviceAccountName':
      return pod.spec?.serviceAccountName ?? ''
    case 'status.podIP':
    case 'status.podIPs':
    case 'status.hostIP':
    case 'status.hostIPs':
      return podIp
    default:
      throw new RuntimeError('Unsupported', `fieldRef "${path}" is not supported`)
  }
}

export type EnvironmentInput = {
  pod: Pod
  container: Container
  podIp: string
  references: References
  image: { path: string[]; env?: Record<string, string> }
  /** Translates mount paths to directories. Applied to values of the spec, never to a value from a Secret. */
  translate: (text: string) => string
  /** HOME and TMPDIR: a directory of this pod. */
  home: string
  /** Variables that identify the runtime's processes. */
  markers: Record<string, string>
}

/** @throws RuntimeError `ReferenceMissing`, `Unsupported` */
export function environmentOf(input: EnvironmentInput): Map<string, string> {
  const { pod, container, podIp, references, image, translate } = input
  const values = new Map<string, string>([
    ['PATH', [...image.path, ...systemPath].join(':')],
    ['HOSTNAME', pod.metadata.name],
    ['HOME', input.home],
    ['TMPDIR', input.home],
    ...Object.entries(image.env ?? {}),
  ])
  const set = (name: string, value: string) => {
    if (name === '' || name.includes('=') || name.includes('\0') || value.includes('\0')) {
      throw new RuntimeError('Unsupported', `environment variable "${name}" has a name or value that cannot be passed`)
    }
    if (!name.startsWith(reservedPrefix)) values.set(name, value)
  }
  for (const source of container.envFrom ?? []) {
    const [kind, reference] = source.secretRef
      ? (['secret', source.secretRef] as const)
      : (['configMap', source.configMapRef] as const)
    for (const [key, value] of valuesOf(references, kind, reference?.name, reference?.optional) ?? []) {
      set(`${source.prefix ?? ''}${key}`, value.toString('utf8'))
    }
  }
  for (const variable of container.env ?? []) {
    const value = valueFrom(variable)
    if (value !== undefined) set(variable.name, value)
  }
  for (const [name, value] of Object.entries(input.markers)) values.set(name, value)
  return values

  function valueFrom({ value, valueFrom: from }: EnvironmentVariable): string | undefined {
    if (from === undefined) return expandReferences(translate(value ?? ''), values)
    if (from.fieldRef) return fieldOf(pod, podIp, from.fieldRef.fieldPath)
    if (from.secretKeyRef) return valueAt(references, 'secret', from.secretKeyRef)?.toString('utf8')
    if (from.configMapKeyRef) return valueAt(references, 'configMap', from.configMapKeyRef)?.toString('utf8')
    throw new RuntimeError('Unsupported', 'env valueFrom must be fieldRef, secretKeyRef or configMapKeyRef here')
  }
}
