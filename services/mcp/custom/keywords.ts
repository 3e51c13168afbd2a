/**
 * `uniqueItems`, `enum` and `const` of JSON Schema in linear time. Ajv's own `uniqueItems` compares each pair of items.
 */
import type { CodeKeywordDefinition } from 'ajv/dist/2020.js'
import type { Json, JsonObject } from '../../mcp-protocol/json.ts'

const isObject = (value: Json | undefined) => typeof value === 'object' && value !== null

/** Equal values have the same text, and different values have different texts. */
function canonical(value: Json | undefined): string {
  if (typeof value === 'string') return JSON.stringify(value)
  // V8 hashes integer strings by value. Without a prefix, clients could choose integers that collide.
  if (typeof value !== 'object' || value === null) return `#${value}`
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  const members = value as JsonObject
  const names = Object.keys(members).sort()
  return `{${names.map(name => `${JSON.stringify(name)}:${canonical(members[name])}`).join()}}`
}

/** The later and the earlier index of the first duplicate item. */
function duplicateIn(items: readonly Json[]): readonly [number, number] | undefined {
  const seen = new Map<string, number>()
  for (const [index, item] of items.entries()) {
    const text = canonical(item)
    const earlier = seen.get(text)
    if (earlier !== undefined) return [index, earlier]
    seen.set(text, index)
  }
  return undefined
}

/** Whether a value is one of `values`. */
function membership(values: readonly Json[]): (value: Json) => boolean {
  const plain = new Set(values)
  const texts = new Set(values.filter(isObject).map(canonical))
  return value => (isObject(value) ? texts.size > 0 && texts.has(canonical(value)) : plain.has(value))
}

/** Definitions that replace Ajv's own. `_` and `str` are Ajv's code templates. */
export function linearKeywords({ _, str }: Pick<typeof import('ajv/dist/2020.js'), '_' | 'str'>) {
  const uniqueItems: CodeKeywordDefinition = {
    keyword: 'uniqueItems',
    type: 'array',
    schemaType: 'boolean',
    error: {
      message: ({ params: { pair } }) =>
        str`must NOT have duplicate items (items ## ${_`${pair}[0]`} and ${_`${pair}[1]`} are identical)`,
    },
    code(context) {
      if (context.schema === false) return
      const find = context.gen.scopeValue('func', { ref: duplicateIn })
      const pair = context.gen.const('pair', _`${find}(${context.data})`)
      context.setParams({ pair })
      context.fail(_`${pair} !== undefined`)
    },
  }
  const among =
    (valuesOf: (schema: Json) => readonly Json[]): CodeKeywordDefinition['code'] =>
    context => {
      const has = context.gen.scopeValue('func', { ref: membership(valuesOf(context.schema)) })
      context.fail(_`!${has}(${context.data})`)
    }
  const enumeration: CodeKeywordDefinition = {
    keyword: 'enum',
    schemaType: 'array',
    error: {
      message: 'must be equal to one of the allowed values',
      params: ({ schemaCode }) => _`{allowedValues: ${schemaCode}}`,
    },
    code: among(values => values as readonly Json[]),
  }
  const constant: CodeKeywordDefinition = {
    keyword: 'const',
    error: { message: 'must be equal to constant' },
    code: among(value => [value]),
  }
  return [uniqueItems, enumeration, constant]
}
