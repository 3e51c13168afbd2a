/** A restore from the archive: its source, its volume and pod, and what is refused. */
import { describe, expect, test } from 'vitest'
import { type Backup, labels, type Restore, type RestoreTarget } from '../../crds/index.ts'
import { parseInstanceConfiguration } from '../../instance/configuration.ts'
import { archiveTlsVariable } from '../../instance/recovery/source.ts'
import { trustIn } from '../authority/state.ts'
import { recoveryOf, recoverySource } from '../backup/recovery.ts'
import { prerequisitesOf } from '../endpoint/plan/index.ts'
import { archiveSourceDraft } from '../member/archive/source.ts'
import { planMember } from '../member/plan/index.ts'
import { noRestarts } from '../member/pod/plan/restart-annotations.ts'
import { conditionOf } from '../objects/conditions.ts'
import type { ArchiveSource } from '../objects/instance.ts'
import { createAuthority } from '../pki/index.ts'
import { database, deadlines, now, observed, restore } from '../testing/observed-restore.ts'
import { reconciledDatabase } from '../testing/reconciled-database.ts'
import { plainSpec } from '../testing/samples.ts'
import { plan } from './plan.ts'

const id = '5e1d9a52-3f0e-4b43-9c0f-0a1b2c3d4e5f'
const backupId = '0190bbbb-0000-7000-8000-000000000001'
const pods = { archive: { url: 'https://archive.test:8443' } }
const durable: Backup = {
  apiVersion: 'espalier.dev/v1alpha1' as Backup['apiVersion'],
  kind: 'Backup',
  metadata: { name: 'one-1', namespace: 'n', labels: { [labels.id]: backupId } },
  spec: { databaseName: 'one', databaseId: id, kind: 'durable', purpose: 'user' },
  status: {
    ...{ phase: 'completed', incarnation: 1, cutAt: '2026-01-31T12:00:00Z', endLsn: '0/5000000' },
    ...{ systemIdentifier: '7', sizeBytes: 10 * 2 ** 20 * 60 },
  },
}
const archive = { incarnation: 1, archived: '0/9000000', archivedAt: '2026-01-31T13:00:00Z' }
const record = { backupName: 'one-1', backupId, incarnation: 1, systemIdentifier: '7', sizeBytes: 10 * 2 ** 20 * 60 }
const requesting = (target: RestoreTarget, status: Restore['status'] = { phase: 'pending' }): Restore => {
  const its = restore(status)
  return { ...its, spec: { ...its.spec, databaseId: id, target } }
}
const archiving = { ...database({ archive }), spec: { ...plainSpec, backup: { durable: true } } }
const found = (target: RestoreTarget, more: Partial<Parameters<typeof recoveryOf>[0]> = {}) =>
  recoveryOf({ target, recorded: undefined, database: archiving, backup: undefined, backups: [durable], ...more })

describe('its source', () => {
  test('is selected by the target', () => {
    const through = '0/9000000'
    expect(found({ time: '2026-01-31T12:30:00Z' })).toEqual({ record: { ...record, through } })
    expect(found({ lsn: '0/6000000' })).toEqual({ record: { ...record, through } })
    expect(found({ pointName: 'before' })).toEqual({ record })
    expect(found({ backupName: 'one-1' }, { backup: durable })).toEqual({ record })
    expect(
      found({ backupName: 'one-1' }, { backup: { ...durable, spec: { ...durable.spec, kind: 'hot' } } }),
    ).toBeUndefined()
  })

  test('does not change once selected, whatever the archive has later', () => {
    expect(found({ time: '2026-01-31T12:30:00Z' }, { recorded: record, backups: [] })).toEqual({ record })
  })

  test.each<[string, ReturnType<typeof found>, string]>([
    ['a time outside the window', found({ time: '2026-01-31T11:00:00Z' }), 'OutsideWindow'],
    [
      'a database without the durable tier',
      found({ lsn: '0/6000000' }, { database: database({ archive }) }),
      'NoDurableTier',
    ],
    ['a database without base backups', found({ lsn: '0/6000000' }, { backups: [] }), 'OutsideWindow'],
  ])('is refused for %s', (_, recovery, reason) => {
    expect(recovery).toMatchObject({ refused: { reason } })
  })

  test('is refused in an installation without an archive', () => {
    expect(recoverySource(requesting({ lsn: '0/6000000' }).spec, record, {})).toMatchObject({
      refused: { reason: 'NoArchive' },
    })
  })
})

test('it is recorded when the restore starts; the deadline depends on the size of the base backup', () => {
  const target = { time: '2026-01-31T12:30:00Z' }
  const { source } = recoverySource(requesting(target).spec, record, pods) as { source: ArchiveSource }
  const begun = plan(
    observed({
      restore: requesting(target),
      backup: undefined,
      source: { source },
      recovery: record,
      candidate: undefined,
      prerestore: undefined,
    }),
    now,
    deadlines,
  ).status
  expect(begun).toMatchObject({ phase: 'running', recovery: record })
  expect(Date.parse(begun.deadlineAt ?? '')).toBe(now + deadlines.restoringMs + 60_000)
  const refused = plan(
    observed({
      restore: requesting(target),
      backup: undefined,
      source: { refused: { reason: 'OutsideWindow', message: 'why' } },
    }),
    now,
    deadlines,
  ).status
  expect([refused.phase, conditionOf(refused, 'Ready')?.reason, refused.error]).toEqual([
    'failed',
    'OutsideWindow',
    'why',
  ])
})

describe('its member', () => {
  const { owner, children, observedOf } = reconciledDatabase()
  const { source } = recoverySource(
    requesting({ lsn: '0/6000000' }).spec,
    { ...record, through: '0/9000000' },
    pods,
  ) as {
    source: ArchiveSource
  }
  const planned = (given: Parameters<typeof observedOf>[0], more = {}) => {
    const reconciled = observedOf(given)
    const seen = { ...reconciled, instance: { ...reconciled.instance, dataSource: source }, ...more }
    const needs = {
      ...prerequisitesOf(reconciled),
      restartsOf: noRestarts,
      role: 'primary' as const,
      protectsVolume: false,
    }
    return planMember(seen, owner, now, needs)
  }
  const none = Object.fromEntries(Object.keys(children).map(name => [name, undefined]))
  const empty = { status: { volume: undefined }, children: none, pod: undefined, postgres: undefined }

  test('begins with an empty claim, its Secret, and the source that `prepare` recovers', () => {
    const { actions, desired } = planned(empty)
    expect(actions.map(action => action.do)).toEqual(['create-claim', 'issue-archive-source', 'apply'])
    expect(desired.claim?.spec?.dataSource).toBeUndefined()
    const { recover, initialise } = parseInstanceConfiguration(desired.configuration?.data?.['instance.json'] ?? '')
    expect(initialise).toBe(false)
    expect(recover).toEqual({
      ...{ archive: pods.archive.url, id, incarnation: 1, backup: backupId, through: '0/9000000' },
      target: { kind: 'lsn', lsn: '0/6000000' },
    })
  })

  test('mounts the certificate only in its init container, before and after it serves', () => {
    const claim = {
      ...children.claim,
      metadata: {
        ...children.claim.metadata,
        annotations: { ...children.claim.metadata.annotations, 'espalier.dev/recovered-from': 'x' },
      },
    }
    for (const status of [{ volume: undefined }, {}]) {
      const template = planned({ status, children: { claim, statefulSet: undefined }, pod: undefined }).desired
        .statefulSet?.spec?.template.spec
      const [prepare] = template?.initContainers ?? []
      expect(prepare?.env?.some(({ name }) => name === archiveTlsVariable)).toBe(true)
      expect(JSON.stringify(template?.containers)).not.toContain('archive-source')
      expect(template?.volumes?.find(({ name }) => name === 'archive-source')?.secret).toMatchObject({ optional: true })
    }
  })

  test('loses its Secret once its volume is recorded', () => {
    const secret = archiveSourceDraft(
      { owner, incarnation: 1, number: 0 },
      source,
      trustIn(createAuthority()),
      Date.now,
    )
    const withUid = { ...secret, metadata: { ...secret.metadata, uid: 'secret' } } as never
    const removed = (status: object) =>
      planned({ status }, { children: { ...children, archiveSource: withUid }, archiveSource: 'good' }).actions.filter(
        action => action.do === 'delete',
      )
    expect(removed({ volume: undefined })).toEqual([])
    expect(removed({})).toMatchObject([{ do: 'delete', kind: 'Secret', uid: 'secret' }])
  })
})
