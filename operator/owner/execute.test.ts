/** The results of a pass's actions: problems for conditions, and errors. */
import { describe, expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import { RangeExhaustedError } from '../endpoint/port-allocator.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { diskFull, PostgresError } from '../postgres/administrator.ts'
import { execute, worst } from './execute.ts'
import type { Result } from './kind.ts'
import type { Problem } from './problems.ts'

test('a pass with several errors fails with an error that is not a conflict, if there is one', () => {
  const [conflict, away] = [new ClusterError('Conflict', 'changed'), new ClusterError('Unavailable', 'away')]
  expect([worst([conflict, away]), worst([conflict])]).toEqual([away, conflict])
})

describe('the outcome of a pass', () => {
  const nothing = {
    ...{ problems: [], errors: [], awaitsPort: false, growthRefused: false, isReplaced: false, status: undefined },
  }
  const outcomeOf = (...results: (Result<string> | Error)[]) =>
    execute(results, async result => {
      if (result instanceof Error) throw result
      return result
    })

  test('successful actions have no problem and no error', async () => {
    expect(await outcomeOf('done', 'done')).toEqual(nothing)
  })

  test('another result than success is in the outcome', async () => {
    expect(await outcomeOf('done', 'refused')).toEqual({ ...nothing, growthRefused: true })
    expect(await outcomeOf('replaced', 'done')).toEqual({ ...nothing, isReplaced: true })
    expect(await outcomeOf({ status: 'a record' })).toEqual({ ...nothing, status: 'a record' })
  })

  type Refusal = [error: Error, problem: Problem]
  const refusal = (reason: 'Invalid' | 'Forbidden' | 'BadRequest'): Refusal => [
    new ClusterError(reason, 'no'),
    { condition: 'Progressing', reason: 'Refused', message: 'no' },
  ]
  const statement = new PostgresError('statement', 'no', '42501')
  const full = new PostgresError('statement', 'no room', diskFull)
  const taken = new NameTakenError('Secret', { namespace: 'tenant', name: 'one' })
  test.each<Refusal>([
    [taken, { condition: 'Progressing', reason: 'NameTaken', message: taken.message }],
    refusal('Invalid'),
    refusal('Forbidden'),
    refusal('BadRequest'),
    [statement, { condition: 'CredentialsReady', reason: 'RolesRefused', message: 'no' }],
    [full, { condition: 'VolumeReady', reason: 'DiskFull', message: 'no room' }],
  ])('%s is an error and a problem that a condition reports', async (error, problem) => {
    expect(await outcomeOf('done', error)).toEqual({ ...nothing, errors: [error], problems: [problem] })
  })

  test.each([
    new ClusterError('Conflict', 'changed'),
    new ClusterError('Unavailable', 'away'),
    new PostgresError('starting', 'not yet'),
    new Error('of ours'),
  ])('%s is an error that no condition reports', async error => {
    expect(await outcomeOf(error)).toEqual({ ...nothing, errors: [error] })
  })

  test('a range without a free port is a problem, but not an error', async () => {
    const error = new RangeExhaustedError('all taken')
    const problem = { condition: 'EndpointReady', reason: 'PortRangeExhausted', message: 'all taken' }
    expect(await outcomeOf(error)).toEqual({ ...nothing, awaitsPort: true, problems: [problem] })
  })
})
