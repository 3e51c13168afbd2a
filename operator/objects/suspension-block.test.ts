/** What a suspension waits for. */
import { expect, test } from 'vitest'
import type { Backup, Branch } from '../../crds/index.ts'
import { suspensionBlock } from './suspension-block.ts'

const backup = (phase: string | undefined, metadata: object = {}, spec: object = {}) =>
  ({ metadata: { name: 'nightly', ...metadata }, spec, status: phase === undefined ? undefined : { phase } }) as Backup // the only fields that are read
const sourceBranch = { name: 'copy', id: 'c' }
const branch = (phase: string | undefined, { spec = {}, ...more }: { spec?: object; metadata?: object } = {}) =>
  ({ metadata: { name: 'copy', ...more.metadata }, spec, status: phase === undefined ? {} : { phase } }) as Branch // the only fields that are read

test.each<[string, Backup[], Branch[], string | undefined]>([
  ['nothing', [], [], undefined],
  ['a backup without a status', [backup(undefined)], [], 'AwaitsBackup'],
  ['a queued backup', [backup('completed'), backup('pending')], [], 'AwaitsBackup'],
  ['a running backup', [backup('running')], [], 'AwaitsBackup'],
  ['no backup that has ended', [backup('completed'), backup('failed')], [], undefined],
  [
    'no backup that is being deleted',
    [backup('running', { deletionTimestamp: '2026-01-01T00:00:00Z' })],
    [],
    undefined,
  ],
  ['no backup of a branch', [backup('running', {}, { sourceBranch })], [], undefined],
  ['a branch without a status', [], [branch(undefined)], 'AwaitsBranch'],
  ['a branch that is being created', [], [branch('available'), branch('creating')], 'AwaitsBranch'],
  ['no branch that exists or failed', [], [branch('available'), branch('failed'), branch('deleted')], undefined],
  ['no branch of a branch', [], [branch('creating', { spec: { sourceBranch } })], undefined],
  ['no branch with a deletion request', [], [branch('creating', { spec: { deletionRequestedAt: 'x' } })], undefined],
  ['no branch that is being deleted', [], [branch('creating', { metadata: { deletionTimestamp: 'x' } })], undefined],
])('a suspension waits for %s', (_, backups, branches, reason) => {
  expect(suspensionBlock(backups, branches)?.reason).toBe(reason)
})
