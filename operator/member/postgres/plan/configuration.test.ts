/** Whether Postgres runs with its desired files, and which errors it reports in them. */
import { describe, expect, test } from 'vitest'
import { type Given, reconciledDatabase } from '../../../testing/reconciled-database.ts'
import { awaitsReload, configurationFinding } from './configuration.ts'

const { observedOf, assessmentOf } = reconciledDatabase()
const { desired } = assessmentOf()
const digest = desired.configurationDigest ?? ''
const older = { inForce: 'older' }

describe('a reload', () => {
  test.each<[string, Given, boolean]>([
    ['is not needed if the files are already applied', {}, false],
    ['applies other files', { configuration: older }, true],
    ['applies files that are not mounted yet', { configuration: { ...older, onDisk: 'older' } }, true],
    ['is not planned for a pod with copies of the files', { configuration: { ...older, isMounted: false } }, false],
    [
      'is not planned for files that Postgres refuses',
      { configuration: { ...older, onDisk: digest, errors: ['wrong'] } },
      false,
    ],
    [
      'applies files that replace refused files',
      { configuration: { ...older, onDisk: 'older', errors: ['wrong'] } },
      true,
    ],
    ['is not planned before Postgres answers', { configuration: older, answer: undefined }, false],
  ])('%s', (_, given, is) => {
    expect(awaitsReload(observedOf(given), desired)).toBe(is)
  })
  test('is not planned if the mounted files are unknown', () => {
    expect(awaitsReload(observedOf({ configuration: older }), { ...desired, configurationDigest: undefined })).toBe(
      false,
    )
  })
})

describe('the errors that Postgres reports in its files', () => {
  const refused = { status: 'True', reason: 'StartedWithOlderFiles' }
  test.each<[string, Given, object | undefined]>([
    ['are absent if Postgres applied the files', {}, undefined],
    ['are unknown before Postgres answers', { answer: undefined, configuration: { errors: ['wrong'] } }, undefined],
    ['contain the reason why Postgres started with older files', { configuration: { refused: 'line 3' } }, refused],
    [
      'contain the reason for the older files even if there are other errors',
      { configuration: { refused: 'line 3', errors: ['line 4'] } },
      refused,
    ],
    [
      'contain all reported errors',
      { configuration: { errors: ['line 3', 'line 4'] } },
      { status: 'True', reason: 'NotTaken', message: expect.stringContaining('line 3; line 4') },
    ],
  ])('%s', (_, given, expected) => {
    const finding = configurationFinding(observedOf(given))
    if (expected === undefined) expect(finding).toBeUndefined()
    else expect(finding).toMatchObject(expected)
  })
  test("contain Postgres's own message", () => {
    expect(configurationFinding(observedOf({ configuration: { refused: 'line 3' } }))?.message).toMatch(/: line 3$/)
  })
})
