/**
 * Compiles and runs the rules of `x-kubernetes-validations`. The schema decides a value's CEL type: a value that the
 * schema declares as integer is a CEL int (Kubernetes documentation, "Validation rules").
 */
import { Environment, EvaluationError } from '@marcbachmann/cel-js'
import type { CelRule } from '../../crds/kind.ts'
import { StoreError } from './errors.ts'
import { isList, isObject, type JsonValue } from './json.ts'
import { duplicate, forbidden, invalid, type Problem, required } from './problems.ts'
import type { CompiledRule, SchemaNode } from './schema-node.ts'

const environment = new Environment({ homogeneousAggregateLiterals: false })
  .registerVariable('self', 'dyn')
  .registerVariable('oldSelf', 'dyn')

/** @throws StoreError `definition` for a rule that does not compile */
export function compileRule(rule: CelRule, path: string): CompiledRule {
  try {
    const run = environment.parse(rule.rule)
    const { valid, error } = run.check()
    if (!valid) throw error
    return { rule, run, transition: /\boldSelf\b/.test(rule.rule) }
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new StoreError('definition', `${path}: the rule "${rule.rule}" does not compile: ${why}`, { cause: error })
  }
}

/** Evaluates the rules of one node against its value; `old` is undefined if there is no previous value. */
export function runRules(
  node: SchemaNode,
  value: JsonValue,
  old: JsonValue | undefined,
  path: string,
  only: 'all' | 'transition',
): Problem[] {
  const rules = node.rules.filter(({ transition }) => (transition ? old !== undefined && old !== null : only === 'all'))
  if (rules.length === 0) return []
  const self = toCel(node, value)
  const oldSelf = old === undefined ? undefined : toCel(node, old)
  return rules.flatMap(({ rule, run }) => {
    try {
      return run({ self, oldSelf }) === true ? [] : [broken(rule, value, path)]
    } catch (error) {
      const why = error instanceof EvaluationError ? error.summary : String(error)
      return [invalid(path, node.type ?? null, `${why} evaluating rule: ${rule.message}`)]
    }
  })
}

function broken({ message, fieldPath = '', reason }: CelRule, value: JsonValue, path: string): Problem {
  const at = `${path}${fieldPath}`.replace(/^\./, '')
  if (reason === 'FieldValueForbidden') return forbidden(at, message)
  if (reason === 'FieldValueRequired') return required(at, message)
  if (reason === 'FieldValueDuplicate') return duplicate(at, value)
  return invalid(at, value, message)
}

/** Converts a JSON value to CEL. */
function toCel(node: SchemaNode | undefined, value: JsonValue): unknown {
  if (typeof value === 'number') {
    const integer = node?.type === 'integer' || ((node === undefined || node.intOrString) && Number.isInteger(value))
    return integer ? BigInt(value) : value
  }
  if (isList(value)) return value.map(item => toCel(node?.items, item))
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([field, child]) => [field, toCel(node?.properties.get(field) ?? node?.values, child)]),
  )
}
