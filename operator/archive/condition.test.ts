import { describe, expect, test } from 'vitest'
import { archivingStatus } from '../testing/fake-archive.ts'
import { type ArchivingFacts, archivingFinding } from './condition.ts'

const now = 10_000_000
const ago = (seconds: number) => now - seconds * 1000
const facts = (status = {}, more: Partial<ArchivingFacts> = {}): ArchivingFacts => ({
  ...{ hasArchive: true, isSuspended: false, pod: 'prepared' },
  agent: { status: { ...archivingStatus, now, startedAt: ago(3600), ...status }, at: now, failure: undefined },
  startingSince: undefined,
  ...more,
})

const failing = { state: 'failing', archivedAt: null, error: { message: 'no route' } } as const

describe('the condition Archiving', () => {
  test.each([
    ['everything is archived', facts({ archivedAt: ago(3600) }), 'Archiving'],
    ['WAL has been late for less than a minute', facts({ lagBytes: 9, archivedAt: ago(59) }), 'Archiving'],
    ['WAL has been late for a minute', facts({ lagBytes: 9, archivedAt: ago(60) }), 'Late'],
    ['nothing was ever archived', facts({ lagBytes: 9, archivedAt: null, since: ago(60) }), 'Late'],
    ['a file has waited for a minute', facts({ waitingFiles: 1, oldestWaitingSince: ago(60) }), 'Late'],
    ['a file has waited for less than a minute', facts({ waitingFiles: 1, oldestWaitingSince: ago(59) }), 'Archiving'],
    ['the agent fails', facts({ state: 'failing', error: { code: 'x', message: 'no route' } }), 'Failing'],
    ['the agent fails in its first minute', facts({ ...failing, startedAt: ago(59) }), 'Starting'],
    ['the agent has failed for its complete first minute', facts({ ...failing, startedAt: ago(60) }), 'Failing'],
    [
      'the agent has archived in its first minute, and now fails',
      facts({ ...failing, startedAt: ago(9), archivedAt: now }),
      'Failing',
    ],
    ['an agent that does not report its start fails', facts({ ...failing, startedAt: undefined }), 'Failing'],
    [
      'the agent restarts repeatedly for a minute',
      facts({ ...failing, startedAt: ago(9) }, { startingSince: ago(60) }),
      'Failing',
    ],
    [
      'the agent restarts repeatedly for less than a minute',
      facts({ ...failing, startedAt: ago(9) }, { startingSince: ago(59) }),
      'Starting',
    ],
    ['other content is stored in its first minute', facts({ state: 'conflict', startedAt: now }), 'Conflict'],
    ['other content is stored', facts({ state: 'conflict' }), 'Conflict'],
    ['there is no archive', facts({}, { hasArchive: false }), 'NoArchive'],
    ['the database is suspended', facts({}, { isSuspended: true }), 'Suspended'],
    ['Postgres does not run', facts({}, { pod: 'absent' }), 'NotRunning'],
    ['the pod is older than the durable tier', facts({}, { pod: 'unprepared' }), 'RestartPending'],
    ['the agent was never queried', facts({}, { agent: undefined }), undefined],
    [
      'the agent has never answered, for less than a minute',
      facts({}, { agent: { status: undefined, at: ago(59), failure: 'refused' } }),
      'Starting',
    ],
    [
      'the agent has never answered',
      facts({}, { agent: { status: undefined, at: ago(60), failure: 'refused' } }),
      'AgentUnreachable',
    ],
    [
      'the agent has not answered for a minute',
      facts({}, { agent: { status: archivingStatus, at: ago(60), failure: 'refused' } }),
      'AgentUnreachable',
    ],
    [
      'the agent has not answered for less than a minute',
      facts({}, { agent: { status: archivingStatus, at: ago(59), failure: 'refused' } }),
      'Archiving',
    ],
  ])('if %s', (_, found, reason) => {
    const finding = archivingFinding(found, now)
    expect(finding?.reason).toBe(reason)
    expect(finding?.status).toBe(reason === undefined ? undefined : reason === 'Archiving' ? 'True' : 'False')
  })

  test.each([3600_000, -3600_000])('is the same if the clock of the agent is off by %i ms', offset => {
    const late = { lagBytes: 9, oldestWaitingSince: ago(60) + offset, waitingFiles: 1 }
    const of = (status: object) => facts({ ...status, now: now + offset, startedAt: ago(3600) + offset })
    expect(archivingFinding(of({ ...late, archivedAt: ago(60) + offset }), now)?.reason).toBe('Late')
    expect(archivingFinding(of({ lagBytes: 9, archivedAt: ago(59) + offset }), now)?.reason).toBe('Archiving')
  })
})
