import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type InstanceConfiguration, parseInstanceConfiguration } from './configuration.ts'
import { exitCodes, Refusal, reasonOfExitCode, refusalOf } from './refusal.ts'
import { keyPermissionProblem } from './tls.ts'
import { type Identity, inspectVolume, planVolume, type Volume } from './volume.ts'

const ownId = 'aaaaaaaa-0000-4000-8000-000000000000'
const otherId = 'bbbbbbbb-0000-4000-8000-000000000000'
const wanted: InstanceConfiguration = {
  databaseId: ownId,
  incarnation: 2,
  pgVersion: '17',
  initialise: false,
  files: { 'postgresql.conf': '', 'pg_hba.conf': '', 'pg_ident.conf': '' },
}
const identity: Identity = { databaseId: ownId, incarnation: 2, initialisedAt: '2026-01-01T00:00:00Z', pgVersion: '17' }
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

describe('the actions for a volume', () => {
  test.each<[string, Volume, Partial<InstanceConfiguration>, unknown]>([
    ['empty, of a new database', empty, { initialise: true }, ['initialise']],
    ['with an empty pgdata, of a new database', { ...empty, data: 'empty' }, { initialise: true }, ['initialise']],
    ['interrupted during initdb', { ...empty, staged: [staging] }, { initialise: true }, ['initialise']],
    ['empty, of a database that ran before', empty, {}, 'volume-empty'],
    ['of this database', running, {}, []],
    ['of this database, which is still marked as new', running, { initialise: true }, []],
    [
      'interrupted before its data were published',
      { ...running, data: 'absent', identity: { ...identity, staging }, staged: [staging] },
      {},
      ['publish'],
    ],
    ['whose data are deleted', { ...running, data: 'absent' }, { initialise: true }, 'data-lost'],
    ['whose data directory is empty', { ...running, data: 'empty' }, { initialise: true }, 'data-lost'],
    [
      'whose data are deleted, with remains of initdb',
      { ...running, data: 'absent', staged: [staging] },
      { initialise: true },
      'data-lost',
    ],
    [
      'whose data are deleted after they were published',
      { ...running, data: 'absent', identity: { ...identity, staging } },
      {},
      'data-lost',
    ],
    ['whose data are incomplete', { ...running, data: 'damaged', version: undefined }, {}, 'data-lost'],
    [
      'whose data are incomplete, beside a staged directory',
      { ...running, data: 'damaged', identity: { ...identity, staging }, staged: [staging] },
      {},
      'data-lost',
    ],
    ['with incomplete data and no identity', { ...empty, data: 'damaged' }, { initialise: true }, 'unknown-data'],
    ['with data and no identity', { ...running, identity: undefined }, { initialise: true }, 'unknown-data'],
    [
      'with an unreadable identity',
      { ...running, identity: 'unreadable' },
      { initialise: true },
      'identity-unreadable',
    ],
    [
      'of another database',
      { ...running, identity: { ...identity, databaseId: otherId } },
      { initialise: true },
      'other-database',
    ],
    ['of another incarnation', { ...running, identity: { ...identity, incarnation: 1 } }, {}, 'other-incarnation'],
    ['of another member', { ...running, identity: { ...identity, member: 2 } }, {}, 'other-incarnation'],
    ['of the first member, in the pod of another member', running, { member: 2 }, 'other-incarnation'],
    ['of the member of this pod', { ...running, identity: { ...identity, member: 2 } }, { member: 2 }, []],
    [
      'copied from the named member',
      { ...running, identity: { ...identity, databaseId: otherId, incarnation: 7, member: 2 } },
      { prepareCopy: true, copyOf: otherId, copyOfIncarnation: 7, copyOfMember: 2 },
      ['adopt'],
    ],
    [
      'copied from another member if the first one is named',
      { ...running, identity: { ...identity, databaseId: otherId, incarnation: 7, member: 2 } },
      { prepareCopy: true, copyOf: otherId, copyOfIncarnation: 7 },
      'other-database',
    ],
    ['of another version', running, { pgVersion: '18' }, 'wrong-version'],
    [
      'of another version, interrupted before its data were published',
      { ...running, data: 'absent', version: undefined, identity: { ...identity, staging }, staged: [staging] },
      { pgVersion: '18' },
      'wrong-version',
    ],
    ['with data of another version than its identity', { ...running, version: '16' }, {}, 'wrong-version'],
    [
      'copied from an earlier incarnation',
      { ...running, identity: { ...identity, incarnation: 1 } },
      { prepareCopy: true },
      ['adopt'],
    ],
    ['copied, and adopted already', running, { prepareCopy: true }, []],
    [
      'copied from the named database',
      { ...running, identity: { ...identity, databaseId: otherId } },
      { prepareCopy: true, copyOf: otherId },
      ['adopt'],
    ],
    [
      'copied from the named incarnation',
      { ...running, identity: { ...identity, databaseId: otherId, incarnation: 7 } },
      { prepareCopy: true, copyOf: otherId, copyOfIncarnation: 7 },
      ['adopt'],
    ],
    [
      'copied from another incarnation than the named one',
      { ...running, identity: { ...identity, databaseId: otherId, incarnation: 7 } },
      { prepareCopy: true, copyOf: otherId, copyOfIncarnation: 6 },
      'other-database',
    ],
    [
      'copied from a database that is not named',
      { ...running, identity: { ...identity, databaseId: otherId } },
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

  test('an initialised volume is never initialised again', () => {
    const identities = fc.constantFrom<Volume['identity']>(
      identity,
      { ...identity, staging },
      { ...identity, databaseId: otherId },
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

describe('the content of a volume', () => {
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
  const recorded = { 'espalier-identity.json': JSON.stringify(identity) }
  const complete = { 'pgdata/PG_VERSION': '17\n', 'pgdata/global/pg_control': 'x' }

  test.each<[string, Record<string, string>, Volume]>([
    ['nothing', {}, empty],
    ['an empty pgdata', { 'pgdata/': '' }, { ...empty, data: 'empty' }],
    ['complete data', { ...recorded, ...complete }, running],
    ['complete data without an identity', complete, { ...running, identity: undefined }],
    [
      'data without PG_VERSION',
      { ...recorded, 'pgdata/global/pg_control': 'x' },
      { ...running, data: 'damaged', version: undefined },
    ],
    ['data without pg_control', { ...recorded, 'pgdata/PG_VERSION': '17\n' }, { ...running, data: 'damaged' }],
    [
      'pg_control in another directory',
      { ...recorded, 'pgdata/PG_VERSION': '17', 'pgdata/pg_control': 'x', 'pgdata/global/': '' },
      { ...running, data: 'damaged' },
    ],
    ['an identity without data', recorded, { ...empty, identity }],
    [
      'an unfinished initdb beside unrelated files',
      { [`${staging}/PG_VERSION`]: '17', 'lost+found/': '', 'old-pgdata.new-': '' },
      { ...empty, staged: [staging] },
    ],
  ])('%s is detected', (_, files, volume) => {
    expect(inspect(files)).toEqual(volume)
  })

  test.each<[string, unknown, Volume['identity']]>([
    ['complete', identity, identity],
    ['with the directory of initdb', { ...identity, staging }, { ...identity, staging }],
    ['with a field of a later version', { ...identity, more: 1 }, identity],
    // Text on the volume must never name a path outside the volume.
    ['with a path outside the volume', { ...identity, staging: '../pgdata.new-11' }, identity],
    ['with a path that continues after the name', { ...identity, staging: 'pgdata.new-11/..' }, identity],
    ['with an incomplete name', { ...identity, staging: 'pgdata.new-' }, identity],
    ['with a name that is not a text', { ...identity, staging: ['pgdata.new-11'] }, identity],
    ['without a database', { ...identity, databaseId: undefined }, 'unreadable'],
    ['without a time', { ...identity, initialisedAt: 1 }, 'unreadable'],
    ['without a version', { ...identity, pgVersion: 17 }, 'unreadable'],
    ['without an incarnation', { ...identity, incarnation: undefined }, 'unreadable'],
    ['with a fractional incarnation', { ...identity, incarnation: 1.5 }, 'unreadable'],
    ['null', null, 'unreadable'],
    ['truncated', '{"databaseId": "', 'unreadable'],
    ['empty', '', 'unreadable'],
  ])('an identity that is %s is parsed as such', (_, text, read) => {
    const content = typeof text === 'string' ? text : JSON.stringify(text)
    expect(inspect({ 'espalier-identity.json': content }).identity).toEqual(read)
  })
})

describe('instance.json', () => {
  const { files, ...rest } = wanted
  test('is parsed', () => {
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
    [{ ...rest, files: { ...files, 'pg_hba.conf': undefined } }, 'files must contain pg_hba.conf'],
  ])('reports what is wrong with it: %j', (value, message) => {
    const text = value === '' ? 'x' : JSON.stringify(value)
    expect(() => parseInstanceConfiguration(text)).toThrow(`instance.json: ${message}`)
  })
})

describe('refusals', () => {
  test('have an exit code that identifies the reason', () => {
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
  ])('report the meaning of %s', (code, reason) => {
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
