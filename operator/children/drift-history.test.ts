/** Two managers set one field to different values. They alternate less and less often, and a condition names both. */
import { expect, test } from 'vitest'
import type { AnyObject, Draft } from '../../cluster/index.ts'
import { operatorManager, withForeignFields } from '../objects/foreign-fields.ts'
import { stamped } from '../objects/up-to-date.ts'
import { applyIfChanged, conflictFinding } from './drift.ts'
import { createDriftHistory } from './drift-history.ts'

const metadata = { name: 'db-1', namespace: 'databases' }
const draft = stamped<Draft<'Service'>>({
  apiVersion: 'v1',
  kind: 'Service',
  metadata,
  spec: { selector: { id: '1' } },
})
const entry = (manager: string, fieldsV1: object, operation: 'Apply' | 'Update' = 'Update') => ({
  ...{ manager, operation, apiVersion: 'v1', fieldsType: 'FieldsV1' as const, fieldsV1 },
})
const service = (spec: object, ...managedFields: ReturnType<typeof entry>[]) =>
  withForeignFields({
    ...draft,
    spec,
    metadata: { ...draft.metadata, uid: 'u', managedFields },
  } as unknown as AnyObject)

const clean = service({ selector: { id: '1' } })
const local = (value = 'Local') =>
  service(
    { selector: { id: '1' }, internalTrafficPolicy: value },
    entry(operatorManager, { 'f:spec': { 'f:selector': {} } }, 'Apply'),
    entry('kustomize', { 'f:spec': { 'f:internalTrafficPolicy': {}, 'f:selector': {} } }),
  )

function conflicting() {
  let now = 0
  const history = createDriftHistory(() => now)
  const known = () => ({ drifts: history.of('key') })
  /** The other manager writes. The operator then restores the field, if it is due. */
  const pass = (actual: AnyObject, remaining = 0): boolean => {
    const [action] = applyIfChanged(known(), 'Service', actual, draft)
    if (action?.do !== 'apply' || action.putBack === undefined) return false
    history.putBack('key', clean, action.putBack.corrections, action.putBack.drifts.slice(0, remaining))
    return true
  }
  return { known, pass, wait: (ms: number) => (now += ms) }
}

test("an object that matches the draft is not written, and shared fields count as the operator's", () => {
  expect(applyIfChanged(conflicting().known(), 'Service', clean, draft)).toEqual([])
  expect(local().metadata.managedFields?.map(({ fieldsV1 }) => fieldsV1)).toEqual([
    { 'f:spec': { 'f:internalTrafficPolicy': {} } },
  ])
})

test('a field that is changed repeatedly is reported, and restored with increasing pauses', () => {
  const { known, pass, wait } = conflicting()
  for (let times = 0; times < 5; times++) expect(pass(local())).toBe(true)
  expect(pass(local())).toBe(false)
  const finding = conflictFinding(known())
  expect(finding).toMatchObject({ status: 'False', reason: 'FieldContested' })
  expect(finding?.message).toContain('Service db-1: spec.internalTrafficPolicy was changed 5 times')
  expect(finding?.message).toContain('by kustomize')
  // Another value, or another field, is restored at once.
  expect(pass(local('Cluster'))).toBe(true)
  expect(pass(service({ selector: { id: '1', team: 'x' } }))).toBe(true)
  wait(10_000)
  expect(pass(local())).toBe(true)
  wait(10_000)
  expect(pass(local())).toBe(false)
  wait(10_000)
  expect(pass(local())).toBe(true)
  wait(11 * 60_000)
  expect(conflictFinding(known())).toBeUndefined()
})

test('a field that the response to its removal still contains belongs to the cluster', () => {
  const { known, pass } = conflicting()
  expect(pass(local(), 1)).toBe(true)
  expect(pass(local())).toBe(false)
  expect(conflictFinding(known())).toBeUndefined()
  expect(pass(local('Cluster'))).toBe(true)
})
