/**
 * Values that a pod reads from Secrets and ConfigMaps. Environment and volumes use the same look-up. Its errors name
 * the location.
 */
import type { ConfigMap, Pod, Secret } from '../../../cluster/index.ts'
import { RuntimeError } from '../errors.ts'

/** The current Secrets and ConfigMaps of one namespace. */
export type References = {
  secret(name: string): Secret | undefined
  configMap(name: string): ConfigMap | undefined
}

export type ReferenceKind = 'secret' | 'configMap'
const kindInWords = { secret: 'Secret', configMap: 'ConfigMap' } as const
/** Valid keys of the API server (ConfigMap.data). Keys also become file names. */
const keyPattern = /^[-._a-zA-Z0-9]{1,253}$/

/** All values of a Secret or ConfigMap. Undefined if the object is missing and optional. */
export function valuesOf(
  references: References,
  kind: ReferenceKind,
  name: string | undefined,
  optional: boolean | undefined,
): Map<string, Buffer> | undefined {
  const found = name === undefined ? undefined : references[kind](name)
  if (found === undefined) {
    if (optional) return undefined
    throw new RuntimeError('ReferenceMissing', `${kindInWords[kind]} "${name ?? ''}" not found`)
  }
  const values = new Map<string, Buffer>()
  const add = (data: Record<string, string> | undefined, encoding: 'base64' | 'utf8') => {
    for (const [key, value] of Object.entries(data ?? {})) {
      if (!keyPattern.test(key) || key === '.' || key.startsWith('..')) {
        throw new RuntimeError('Unsupported', `${kindInWords[kind]} "${name}": "${key}" is not a valid key`)
      }
      values.set(key, Buffer.from(value, encoding))
    }
  }
  if (found.kind === 'Secret') add(found.data, 'base64')
  else {
    add(found.data, 'utf8')
    add(found.binaryData, 'base64')
  }
  return values
}

/** One value. Undefined if the value is missing and optional. */
export function valueAt(
  references: References,
  kind: ReferenceKind,
  selector: { name?: string; key: string; optional?: boolean },
): Buffer | undefined {
  const value = valuesOf(references, kind, selector.name, selector.optional)?.get(selector.key)
  if (value === undefined && !selector.optional) {
    throw new RuntimeError('ReferenceMissing', `${kindInWords[kind]} "${selector.name}" has no key "${selector.key}"`)
  }
  return value
}

/** The name of a Secret or ConfigMap in a pod's set of references. */
export const referenceName = (kind: ReferenceKind, name: string): string => `${kind}/${name}`

/** Every Secret and ConfigMap that a pod references, in its volumes or its containers' environment. */
export function referencesOf(spec: Pod['spec']): Set<string> {
  const names = new Set<string>()
  const add = (kind: ReferenceKind, source: { name?: string } | undefined) => {
    if (source?.name !== undefined) names.add(referenceName(kind, source.name))
  }
  for (const { secret, configMap, projected } of spec?.volumes ?? []) {
    if (secret?.secretName !== undefined) add('secret', { name: secret.secretName })
    add('configMap', configMap)
    for (const source of projected?.sources ?? []) {
      add('secret', source.secret)
      add('configMap', source.configMap)
    }
  }
  for (const { env = [], envFrom = [] } of [...(spec?.initContainers ?? []), ...(spec?.containers ?? [])]) {
    for (const { valueFrom } of env) {
      add('secret', valueFrom?.secretKeyRef)
      add('configMap', valueFrom?.configMapKeyRef)
    }
    for (const { secretRef, configMapRef } of envFrom) {
      add('secret', secretRef)
      add('configMap', configMapRef)
    }
  }
  return names
}
