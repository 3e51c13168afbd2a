/** The conditions of a branch, their order, and when they are removed. */
import { expect, test } from 'vitest'
import { nextConditions } from './conditions.ts'

const lasting = ['Ready', 'Progressing', 'KeysAvailable', 'VolumeReady', 'CredentialsReady', 'EndpointReady'] as const
const passing = ['VolumeGrown', 'ConfigurationRefused', 'RestartPending'] as const

test('conditions have a fixed order; an optional condition is removed when no finding reports it', () => {
  const finding = { status: 'True' as const, reason: 'R', message: 'm' }
  const found = Object.fromEntries([...passing, ...lasting].map(type => [type, finding]))
  const typesOf = (conditions: ReturnType<typeof nextConditions>) => conditions.map(({ type }) => type)
  const all = nextConditions([], found, 1, 0)
  expect(typesOf(all)).toEqual([...lasting, ...passing])
  expect(typesOf(nextConditions(all, {}, 1, 0))).toEqual(lasting)
})
