/** Whether Postgres runs with the files that it is to have, and what it has against them. */
import { describe, expect, test } from 'vitest'
import { type Given, settledDatabase } from '../../../testing/settled.ts'
import { awaitsReload, configurationFinding } from './configuration.ts'

const { observedOf, assessmentOf } = settledDatabase()
const { desired } = assessmentOf()
const digest = desired.configurationDigest ?? ''
const older = { inForce: 'older' }

describe('a reload', () => {
  test.each<[string, Given, boolean]>([
    ['is nothing to wait for where the files are in force', {}, false],
    ['brings other files', { configuration: older }, true],
    ['brings files that are yet to be mounted', { configuration: { ...older, onDisk: 'older' } }, true],
    ['brings no copies', { configuration: { ...older, isMounted: false } }, false],
    [
      'brings no files that Postgres cannot take',
      { configuration: { ...older, onDisk: digest, errors: ['wrong'] } },
      false,
    ],
    ['brings others in place of those', { configuration: { ...older, onDisk: 'older', errors: ['wrong'] } }, true],
    ['brings nothing that is known before Postgres answers', { configuration: older, answer: undefined }, false],
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
    ['is nothing', {}, undefined],
    ['is unknown before it answers', { answer: undefined, configuration: { errors: ['wrong'] } }, undefined],
    ['is what it did not start with', { configuration: { refused: 'line 3' } }, refused],
    ['is that, before what else is wrong', { configuration: { refused: 'line 3', errors: ['line 4'] } }, refused],
    [
      'is each of its lines',
      { configuration: { errors: ['line 3', 'line 4'] } },
      { status: 'True', reason: 'NotTaken', message: expect.stringContaining('line 3; line 4') },
    ],
  ])('%s', (_, given, expected) => {
    const finding = configurationFinding(observedOf(given))
    if (expected === undefined) expect(finding).toBeUndefined()
    else expect(finding).toMatchObject(expected)
  })
  test('are reported in the words of Postgres', () => {
    expect(configurationFinding(observedOf({ configuration: { refused: 'line 3' } }))?.message).toMatch(/: line 3$/)
  })
})
