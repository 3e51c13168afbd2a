/** What the actions of a pass come to: problems for conditions, and errors. */
import { describe, expect, test } from 'vitest'
import { ClusterError } from '../../cluster/index.ts'
import { RangeExhaustedError } from '../endpoint/port-allocator.ts'
import { NameTakenError } from '../objects/name-taken.ts'
import { diskFull, PostgresError } from '../postgres/administrator.ts'
import type { Done } from '../workload/act.ts'
import { execute, worst } from './execute.ts'
import type { Problem } from './problems.ts'

test('a pass fails with what is more than a mere conflict, if there is such', () => {
  const [conflict, away] = [new ClusterError('Conflict', 'changed'), new ClusterError('Unavailable', 'away')]
  expect([worst([conflict, away]), worst([conflict])]).toEqual([away, conflict])
})

describe('what comes of a pass', () => {
  const nothing = { problems: [], errors: [], awaitsPort: false, growthRefused: false, released: false }
  const outcomeOf = (...results: (Done | 'released' | Error)[]) =>
    execute(results, async result => {
      if (result instanceof Error) throw result
      return result
    })

  test('is nothing to tell where all is done', async () => {
    expect(await outcomeOf('done', 'done')).toEqual(nothing)
  })

  test('is told of each action', async () => {
    expect(await outcomeOf('done', 'refused')).toEqual({ ...nothing, growthRefused: true })
    expect(await outcomeOf('released', 'done')).toEqual({ ...nothing, released: true })
  })

  type Told = [error: Error, problem: Problem]
  const refusal = (reason: 'Invalid' | 'Forbidden' | 'BadRequest'): Told => [
    new ClusterError(reason, 'no'),
    { condition: 'Progressing', reason: 'Refused', message: 'no' },
  ]
  const statement = new PostgresError('statement', 'no', '42501')
  const full = new PostgresError('statement', 'no room', diskFull)
  const taken = new NameTakenError('Secret', { namespace: 'tenant', name: 'one' })
  test.each<Told>([
    [taken, { condition: 'Progressing', reason: 'NameTaken', message: taken.message }],
    refusal('Invalid'),
    refusal('Forbidden'),
    refusal('BadRequest'),
    [statement, { condition: 'CredentialsReady', reason: 'RolesRefused', message: 'no' }],
    [full, { condition: 'VolumeReady', reason: 'DiskFull', message: 'no room' }],
  ])('%s is a problem for users to hear of, and an error', async (error, problem) => {
    expect(await outcomeOf('done', error)).toEqual({ ...nothing, errors: [error], problems: [problem] })
  })

  test.each([
    new ClusterError('Conflict', 'changed'),
    new ClusterError('Unavailable', 'away'),
    new PostgresError('starting', 'not yet'),
    new Error('of ours'),
  ])('%s is an error, and no problem', async error => {
    expect(await outcomeOf(error)).toEqual({ ...nothing, errors: [error] })
  })

  test('a range without a free port is a problem, and no error', async () => {
    const error = new RangeExhaustedError('all taken')
    const problem = { condition: 'EndpointReady', reason: 'PortRangeExhausted', message: 'all taken' }
    expect(await outcomeOf(error)).toEqual({ ...nothing, awaitsPort: true, problems: [problem] })
  })
})
