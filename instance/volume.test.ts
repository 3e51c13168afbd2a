import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type InstanceConfiguration, parseInstanceConfiguration } from './configuration.ts'
import { exitCodes, Refusal, reasonOfExitCode, refusalOf } from './refusal.ts'
import { keyPermissionProblem } from './tls.ts'
import { type Identity, inspectVolume, planVolume, type Volume } from './volume.ts'

const ours = 'aaaaaaaa-0000-4000-8000-000000000000'
const theirs = 'bbbbbbbb-0000-4000-8000-000000000000'
const wanted: InstanceConfiguration = {
  databaseId: ours,
  incarnation: 2,
  pgVersion: '17',
  initialise: false,
  files: { 'postgresql.conf': '', 'pg_hba.conf': '', 'pg_ident.conf': '' },
}
const identity: Identity = { databaseId: ours, incarnation: 2, initialisedAt: '2026-01-01T00:00:00Z', pgVersion: '17' }
const empty: Volume = { identity: undefined, data: 'absent', version: undefined, staged: [] }
const running: Volume = { identity, data: 'whole', version: '17', staged: [] }
const staging = 'pgdata.new-00ff00ff'

const outcome = (volume: Volume, changes: Partial<InstanceConfiguration> = {}): unknown => {
  try {
    return planVolume(volume, { ...wanted, ...changes }).map(step => step.do)
  } catch (error) {
    return error instanceof Refusal ? error.reason : error
  }
}

describe('what is done with a volume', () => {
  test.each<[string, Volume, Partial<InstanceConfiguration>, unknown]>([
    ['empty, and new', empty, { initialise: true }, ['initialise']],
    ['with an empty pgdata, and new', { ...empty, data: 'empty' }, { initialise: true }, ['initialise']],
    ['cut off during initdb', { ...empty, staged: [staging] }, { initialise: true }, ['initialise']],
    ['empty, of a database that ran before', empty, {}, 'volume-empty'],
    ['its own', running, {}, []],
    ['its own, still said to be new', running, { initialise: true }, []],
    [
      'cut off before its data were published',
      { ...running, data: 'absent', identity: { ...identity, staging }, staged: [staging] },
      {},
      ['publish'],
    ],
    ['whose data are gone', { ...running, data: 'absent' }, { initialise: true }, 'data-lost'],
    ['whose data are emptied', { ...running, data: 'empty' }, { initialise: true }, 'data-lost'],
    [
      'whose data are gone, with leftovers',
      { ...running, data: 'absent', staged: [staging] },
      { initialise: true },
      'data-lost',
    ],
    [
      'whose data are gone after they were published',
      { ...running, data: 'absent', identity: { ...identity, staging } },
      {},
      'data-lost',
    ],
    ['whose data are not whole', { ...running, data: 'damaged', version: undefined }, {}, 'data-lost'],
    [
      'whose data are not whole, beside others that are staged',
      { ...running, data: 'damaged', identity: { ...identity, staging }, staged: [staging] },
      {},
      'data-lost',
    ],
    ['with what is not whole and no identity', { ...empty, data: 'damaged' }, { initialise: true }, 'unknown-data'],
    ['with data and no identity', { ...running, identity: undefined }, { initialise: true }, 'unknown-data'],
    [
      'with an identity that cannot be read',
      { ...running, identity: 'unreadable' },
      { initialise: true },
      'identity-unreadable',
    ],
    [
      'of another database',
      { ...running, identity: { ...identity, databaseId: theirs } },
      { initialise: true },
      'other-database',
    ],
    ['of another incarnation', { ...running, identity: { ...identity, incarnation: 1 } }, {}, 'other-incarnation'],
    ['of another member', { ...running, identity: { ...identity, member: 2 } }, {}, 'other-incarnation'],
    ['of the first member, where another starts', running, { member: 2 }, 'other-incarnation'],
    ['of the member that starts', { ...running, identity: { ...identity, member: 2 } }, { member: 2 }, []],
    [
      'copied from the member named',
      { ...running, identity: { ...identity, databaseId: theirs, incarnation: 7, member: 2 } },
      { prepareCopy: true, copyOf: theirs, copyOfIncarnation: 7, copyOfMember: 2 },
      ['adopt'],
    ],
    [
      'copied from another member than the one that no name means',
      { ...running, identity: { ...identity, databaseId: theirs, incarnation: 7, member: 2 } },
      { prepareCopy: true, copyOf: theirs, copyOfIncarnation: 7 },
      'other-database',
    ],
    ['of another version', running, { pgVersion: '18' }, 'wrong-version'],
    [
      'of another version, cut off before its data were published',
      { ...running, data: 'absent', version: undefined, identity: { ...identity, staging }, staged: [staging] },
      { pgVersion: '18' },
      'wrong-version',
    ],
    ['with data of another version than it says', { ...running, version: '16' }, {}, 'wrong-version'],
    [
      'copied from an earlier incarnation',
      { ...running, identity: { ...identity, incarnation: 1 } },
      { prepareCopy: true },
      ['adopt'],
    ],
    ['copied, and adopted already', running, { prepareCopy: true }, []],
    [
      'copied from the database named',
      { ...running, identity: { ...identity, databaseId: theirs } },
      { prepareCopy: true, copyOf: theirs },
      ['adopt'],
    ],
    [
      'copied from the incarnation named',
      { ...running, identity: { ...identity, databaseId: theirs, incarnation: 7 } },
      { prepareCopy: true, copyOf: theirs, copyOfIncarnation: 7 },
      ['adopt'],
    ],
    [
      'copied from an incarnation not named',
      { ...running, identity: { ...identity, databaseId: theirs, incarnation: 7 } },
      { prepareCopy: true, copyOf: theirs, copyOfIncarnation: 6 },
      'other-database',
    ],
    [
      'copied from a database not named',
      { ...running, identity: { ...identity, databaseId: theirs } },
      { prepareCopy: true },
      'other-database',
    ],
    [
      'copied, without data',
      { ...running, data: 'absent', identity: { ...identity, incarnation: 1 } },
      { prepareCopy: true },
      'data-lost',
    ],
    [
      'copied, of another version',
      { ...running, identity: { ...identity, incarnation: 1 } },
      { prepareCopy: true, pgVersion: '18' },
      'wrong-version',
    ],
    [
      'copied before its data were published',
      { ...running, data: 'absent', identity: { ...identity, incarnation: 1, staging }, staged: [staging] },
      { prepareCopy: true },
      ['publish', 'adopt'],
    ],
  ])('one %s', (_, volume, changes, expected) => {
    expect(outcome(volume, changes)).toEqual(expected)
  })

  test('one that was ever initialised is never initialised again', () => {
    const identities = fc.constantFrom<Volume['identity']>(
      identity,
      { ...identity, staging },
      { ...identity, databaseId: theirs },
      'unreadable',
    )
    const volumes = fc.record({
      identity: identities,
      data: fc.constantFrom<Volume['data']>('absent', 'empty', 'damaged', 'whole'),
      version: fc.constantFrom('16', '17', undefined),
      staged: fc.subarray([staging, 'pgdata.new-11']),
    })
    fc.assert(
      fc.property(volumes, fc.boolean(), (volume, initialise) => {
        expect(outcome(volume, { initialise })).not.toContainEqual('initialise')
      }),
    )
  })
})

describe('what stands on a volume', () => {
  let root = ''
  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), 'espalier-volume-'))
  })
  afterEach(() => rmSync(root, { recursive: true }))

  /** Files by their paths; a path that ends with a slash is a directory. */
  const inspect = (files: Record<string, string>): Volume => {
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(join(root, path.endsWith('/') ? path : dirname(path)), { recursive: true })
      if (!path.endsWith('/')) writeFileSync(join(root, path), content)
    }
    return inspectVolume(root)
  }
  const said = { 'espalier-identity.json': JSON.stringify(identity) }
  const whole = { 'pgdata/PG_VERSION': '17\n', 'pgdata/global/pg_control': 'x' }

  test.each<[string, Record<string, string>, Volume]>([
    ['nothing', {}, empty],
    ['an empty pgdata', { 'pgdata/': '' }, { ...empty, data: 'empty' }],
    ['whole data', { ...said, ...whole }, running],
    ['whole data that nothing is said of', whole, { ...running, identity: undefined }],
    [
      'data without PG_VERSION',
      { ...said, 'pgdata/global/pg_control': 'x' },
      { ...running, data: 'damaged', version: undefined },
    ],
    ['data without pg_control', { ...said, 'pgdata/PG_VERSION': '17\n' }, { ...running, data: 'damaged' }],
    [
      'pg_control at another place',
      { ...said, 'pgdata/PG_VERSION': '17', 'pgdata/pg_control': 'x', 'pgdata/global/': '' },
      { ...running, data: 'damaged' },
    ],
    ['an identity alone', said, { ...empty, identity }],
    [
      'data that initdb was making, and other things',
      { [`${staging}/PG_VERSION`]: '17', 'lost+found/': '', 'old-pgdata.new-': '' },
      { ...empty, staged: [staging] },
    ],
  ])('%s is seen', (_, files, volume) => {
    expect(inspect(files)).toEqual(volume)
  })

  test.each<[string, unknown, Volume['identity']]>([
    ['whole', identity, identity],
    ['with where its data were made', { ...identity, staging }, { ...identity, staging }],
    ['with what a later version says too', { ...identity, more: 1 }, identity],
    // No word on the volume leads out of it.
    ['with a place that is none of ours', { ...identity, staging: '../pgdata.new-11' }, identity],
    ['with a place that goes on', { ...identity, staging: 'pgdata.new-11/..' }, identity],
    ['with a place that is no name', { ...identity, staging: 'pgdata.new-' }, identity],
    ['with a place that is no text', { ...identity, staging: ['pgdata.new-11'] }, identity],
    ['without a database', { ...identity, databaseId: undefined }, 'unreadable'],
    ['without a time', { ...identity, initialisedAt: 1 }, 'unreadable'],
    ['without a version', { ...identity, pgVersion: 17 }, 'unreadable'],
    ['without an incarnation', { ...identity, incarnation: undefined }, 'unreadable'],
    ['with half an incarnation', { ...identity, incarnation: 1.5 }, 'unreadable'],
    ['null', null, 'unreadable'],
    ['cut off', '{"databaseId": "', 'unreadable'],
    ['empty', '', 'unreadable'],
  ])('an identity that is %s is read as such', (_, text, read) => {
    const content = typeof text === 'string' ? text : JSON.stringify(text)
    expect(inspect({ 'espalier-identity.json': content }).identity).toEqual(read)
  })
})

describe('instance.json', () => {
  const { files, ...rest } = wanted
  test('is read', () => {
    expect(parseInstanceConfiguration(JSON.stringify(wanted))).toEqual({ ...wanted, prepareCopy: false })
  })
  test.each<[unknown, string]>([
    ['', 'is not JSON'],
    [[], 'must be an object'],
    [{ ...wanted, databaseId: 1 }, 'databaseId must be a string'],
    [{ ...wanted, incarnation: 0 }, 'incarnation must be a whole number'],
    [{ ...wanted, incarnation: 1.5 }, 'incarnation must be a whole number'],
    [{ ...wanted, pgVersion: 17 }, 'pgVersion must be a major version'],
    [{ ...wanted, pgVersion: '17.1' }, 'pgVersion must be a major version'],
    [{ ...wanted, initialise: 'yes' }, 'initialise must be true or false'],
    [{ ...wanted, prepareCopy: 1 }, 'prepareCopy must be true or false'],
    [{ ...wanted, copyOf: 1 }, 'copyOf must be a string'],
    [{ ...wanted, copyOfIncarnation: 0 }, 'copyOfIncarnation must be a whole number from 1'],
    [{ ...wanted, member: 0 }, 'member must be a whole number from 1'],
    [{ ...wanted, copyOfMember: 'two' }, 'copyOfMember must be a whole number from 1'],
    [{ ...wanted, initialise: true, prepareCopy: true }, 'a copy is never initialised'],
    [rest, 'files must be an object'],
    [{ ...rest, files: { ...files, 'pg_hba.conf': undefined } }, 'files must hold pg_hba.conf'],
  ])('names what is wrong with it: %j', (value, message) => {
    const text = value === '' ? 'x' : JSON.stringify(value)
    expect(() => parseInstanceConfiguration(text)).toThrow(`instance.json: ${message}`)
  })
})

describe('refusals', () => {
  test('have an exit code each, that leads back to the reason', () => {
    const codes = Object.entries(exitCodes)
    expect(new Set(Object.values(exitCodes)).size).toBe(codes.length)
    for (const [reason, code] of codes) expect(reasonOfExitCode(code)).toBe(reason)
    expect(reasonOfExitCode(0)).toBeUndefined()
    expect(reasonOfExitCode(137)).toBeUndefined()
  })

  test.each([
    ['ENOSPC', 'disk-full'],
    ['EDQUOT', 'disk-full'],
    ['EACCES', 'volume-unwritable'],
    ['EROFS', 'volume-unwritable'],
    ['EMFILE', 'internal'],
  ])('tell what %s means', (code, reason) => {
    expect(refusalOf(Object.assign(new Error('no'), { code })).reason).toBe(reason)
  })
})

describe('the permissions of the private key', () => {
  test.each([
    [1000, 0o600, true],
    [1000, 0o400, true],
    [1000, 0o640, false],
    [1000, 0o604, false],
    [0, 0o640, true],
    [0, 0o440, true],
    [0, 0o660, false],
    [0, 0o644, false],
    [1001, 0o600, false],
  ])('of user %i, mode %o: accepted is %s', (uid, mode, accepted) => {
    expect(keyPermissionProblem({ uid, mode: mode | 0o100000 }, 1000) === undefined).toBe(accepted)
  })
})
