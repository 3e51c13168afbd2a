import { describe, expect, test } from 'vitest'
import type { Condition } from '../../crds/index.ts'
import { renderAttention } from './attention.ts'

const condition = (type: string, status: Condition['status'], reason = 'Because'): Condition => ({
  ...{ type, status, reason },
  message: `${type} is ${status}`,
  lastTransitionTime: '2026-01-31T12:00:00Z',
})
const namesOf = (phase: string, ...conditions: Condition[]) =>
  renderAttention(phase, conditions)?.map(({ condition }) => condition)

test('lists unmet conditions with reason, text and time, and nothing else', () => {
  const unmet = condition('BackupsReady', 'False', 'NoSnapshots')
  expect(renderAttention('available', [condition('Ready', 'True'), unmet])).toEqual([
    {
      condition: 'BackupsReady',
      reason: 'NoSnapshots',
      message: 'BackupsReady is False',
      since: '2026-01-31T12:00:00.000Z',
    },
  ])
  expect(renderAttention('available', [condition('Ready', 'True')])).toBeUndefined()
  expect(renderAttention('available', undefined)).toBeUndefined()
})

describe('lists', () => {
  test.each([
    ['a False condition', 'degraded', condition('VolumeReady', 'False')],
    ['an Unknown condition', 'degraded', condition('Ready', 'Unknown')],
    ['a pending restart', 'available', condition('RestartPending', 'True')],
    ['a problem of a suspended database', 'suspended', condition('VolumeReady', 'False')],
  ])('%s', (_, phase, given) => expect(namesOf(phase, given)).toEqual([given.type]))
})

describe('does not list', () => {
  test.each([
    ['a restart that is not pending', 'available', condition('RestartPending', 'False')],
    ['progress', 'available', condition('Progressing', 'True')],
    ['the end of progress', 'available', condition('Progressing', 'False')],
    ['a suspended database that is not ready', 'suspended', condition('Ready', 'False')],
    ['a database that is being created', 'creating', condition('CredentialsReady', 'False')],
    ['a running operation', 'modifying', condition('Ready', 'False')],
    ['a condition of a newer operator', 'available', condition('Unheard', 'False')],
  ])('%s', (_, phase, given) => expect(renderAttention(phase, [given])).toBeUndefined())
})
