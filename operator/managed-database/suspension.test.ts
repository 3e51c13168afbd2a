/** What a suspension waits for. */
import { expect, test } from 'vitest'
import type { Backup, Branch } from '../../crds/index.ts'
import { suspensionBlock } from './suspension.ts'

const backup = (phase: string | undefined, metadata: object = {}, spec: object = {}) =>
  ({ metadata: { name: 'nightly', ...metadata }, spec, status: phase === undefined ? undefined : { phase } }) as Backup // all that is read
const sourceBranch = { name: 'copy', id: 'c' }
const branch = (phase: string | undefined, { spec = {}, ...more }: { spec?: object; metadata?: object } = {}) =>
  ({ metadata: { name: 'copy', ...more.metadata }, spec, status: phase === undefined ? {} : { phase } }) as Branch // all that is read

test.each<[string, Backup[], Branch[], string | undefined]>([
  ['nothing', [], [], undefined],
  ['a backup that nobody has taken up yet', [backup(undefined)], [], 'AwaitsBackup'],
  ['one that waits for its turn', [backup('completed'), backup('pending')], [], 'AwaitsBackup'],
  ['one that runs', [backup('running')], [], 'AwaitsBackup'],
  ['none that has ended', [backup('completed'), backup('failed')], [], undefined],
  ['none that is being deleted', [backup('running', { deletionTimestamp: '2026-01-01T00:00:00Z' })], [], undefined],
  ['none of a branch', [backup('running', {}, { sourceBranch })], [], undefined],
  ['a branch that nobody has taken up yet', [], [branch(undefined)], 'AwaitsBranch'],
  ['one that is being made', [], [branch('available'), branch('creating')], 'AwaitsBranch'],
  [
    'none that is there, or never came to be',
    [],
    [branch('available'), branch('failed'), branch('deleted')],
    undefined,
  ],
  ['none that is made of a branch', [], [branch('creating', { spec: { sourceBranch } })], undefined],
  ['none that is not wanted any more', [], [branch('creating', { spec: { deletionRequestedAt: 'x' } })], undefined],
  ['none that is being deleted', [], [branch('creating', { metadata: { deletionTimestamp: 'x' } })], undefined],
])('it waits for %s', (_, backups, branches, reason) => {
  expect(suspensionBlock(backups, branches)?.reason).toBe(reason)
})
