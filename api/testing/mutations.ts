/**
 * Returns every way to make a valid value invalid, from the value and its schema in the API description. Each has the
 * path of the field that the error must name.
 */

import { isRecord } from '../../values/record.ts'
import type { Description } from './contract.ts'

type Schema = Record<string, unknown>
type Path = (string | number)[]
type Mutation = { path: Path; rule: string; value: unknown }

const isNumber = (value: unknown): value is number => typeof value === 'number'

/** A copy with the value at the path replaced; `undefined` removes it. */
export function withValue(root: unknown, [step, ...rest]: Path, value: unknown): unknown {
  if (step === undefined) return value
  if (Array.isArray(root)) return root.map((item, index) => (index === step ? withValue(item, rest, value) : item))
  const copy: Record<string, unknown> = { ...(isRecord(root) ? root : {}) }
  if (rest.length === 0 && value === undefined) delete copy[step]
  else copy[step] = withValue(copy[step], rest, value)
  return copy
}

export function mutationsOf(description: Description, schema: Schema, value: unknown): Mutation[] {
  const resolve = (node: Schema, value: unknown): Schema => {
    // The node is a value, or null.
    const [one, other] = Array.isArray(node.anyOf) ? node.anyOf : []
    if (other?.type === 'null') return orNull(resolve(one, value))
    const { propertyName, mapping } = isRecord(node.discriminator) ? node.discriminator : {}
    const type = isRecord(value) ? value[String(propertyName)] : undefined
    if (isRecord(mapping)) return resolve({ $ref: mapping[String(type)] }, value)
    const name = typeof node.$ref === 'string' ? node.$ref.split('/').at(-1) : undefined
    if (name === undefined) return node
    return resolve({ ...description.components.schemas[name], readOnly: node.readOnly }, value)
  }
  const orNull = (node: Schema): Schema => ({ ...node, type: [node.type, 'null'].flat() })
  const walk = (given: Schema, present: unknown, path: Path): Mutation[] => {
    const node = resolve(given, present)
    if (node.readOnly) return []
    const bad = (rule: string, ...values: unknown[]): Mutation[] => values.map(wrong => ({ path, rule, value: wrong }))
    const types = [node.type].flat()
    const found = types.includes('null') ? [] : bad('null', null)
    if (node.enum !== undefined || node.const !== undefined) return [...found, ...bad('enum', 'nonsense', '', 1, [])]
    if (types.includes('string')) return [...found, ...stringFaults(node, bad)]
    if (types.includes('integer') || types.includes('number')) return [...found, ...numberFaults(node, types, bad)]
    if (types.includes('boolean')) return [...found, ...bad('type', 'true', 1, [], {})]
    if (types.includes('array')) return [...found, ...arrayFaults(node, present, path, bad)]
    if (types.includes('object')) return [...found, ...objectFaults(node, present, path, bad)]
    throw new Error(`no mutations for ${path.join('.')}: ${JSON.stringify(node)}`)
  }
  const isWithin = (pattern: unknown, text: string) => typeof pattern !== 'string' || new RegExp(pattern).test(text)
  type Bad = (rule: string, ...values: unknown[]) => Mutation[]

  const stringFaults = (node: Schema, bad: Bad): Mutation[] => [
    ...bad('type', 5, true, [], {}),
    ...(isNumber(node.maxLength) ? bad('maxLength', 'a'.repeat(node.maxLength + 1)) : []),
    ...(isNumber(node.minLength) && node.minLength > 0 ? bad('minLength', 'a'.repeat(node.minLength - 1)) : []),
    ...bad('pattern', ...['\u0000', ' x ', 'ü'.repeat(8)].filter(text => !isWithin(node.pattern, text))),
  ]
  const numberFaults = (node: Schema, types: unknown[], bad: Bad): Mutation[] => [
    ...bad('type', '1', true, [], {}),
    ...(types.includes('integer') ? bad('integer', 1.5) : []),
    ...(isNumber(node.maximum) ? bad('maximum', node.maximum + 1, 1e300) : []),
    ...(isNumber(node.minimum) ? bad('minimum', node.minimum - 1, -1e300) : []),
  ]
  const arrayFaults = (node: Schema, present: unknown, path: Path, bad: Bad): Mutation[] => {
    const items = Array.isArray(present) ? present : []
    return [
      ...bad('type', {}, 'x', 1),
      // Skips a list that must stay empty (`maxItems` is 0).
      ...(isNumber(node.maxItems) && node.maxItems > 0
        ? bad('maxItems', new Array(node.maxItems + 1).fill(items[0]))
        : []),
      ...(isNumber(node.minItems) && node.minItems > 0 ? bad('minItems', []) : []),
      ...items.flatMap((item, index) => walk(node.items as Schema, item, [...path, index])),
    ]
  }
  const objectFaults = (node: Schema, present: unknown, path: Path, bad: Bad): Mutation[] => {
    const required = Array.isArray(node.required) ? node.required : []
    const unknown = { path: [...path, 'no_such_field'], rule: 'unknown', value: 1 }
    return [
      ...bad('type', [], 'x', 1),
      unknown,
      ...required.map((name: string) => ({ path: [...path, name], rule: 'required', value: undefined })),
      ...Object.entries(node.properties ?? {}).flatMap(([name, inner]) =>
        isRecord(present) && name in present ? walk(inner, present[name], [...path, name]) : [],
      ),
    ]
  }
  return walk(schema, value, [])
}
