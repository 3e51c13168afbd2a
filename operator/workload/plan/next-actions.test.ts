/** What is done next, and what is not done, for a database that serves but for one thing. */

import { describe, expect, test } from 'vitest'
import { serverNames } from '../../endpoint/certificate.ts'
import { disruptionBudgetDraft } from '../../endpoint/disruption-budget.ts'
import type { GrowthRefusal } from '../../member/observed.ts'
import { noRestarts } from '../../member/pod/plan/restart-marks.ts'
import { ownerMarks } from '../../objects/ownership.ts'
import { type Given, settledDatabase } from '../../testing/settled.ts'
import type { Action } from '../actions.ts'
import { awaitsPostgres } from './next-actions.ts'

const { owner, children, observedOf, assessmentOf, actionsOf } = settledDatabase()
const { appliedSize, region, podSettings, postgres } = observedOf()
const { claim, statefulSet, service, route, configuration, networkPolicy } = children
const smallSize = appliedSize.size
if (smallSize === undefined) throw new Error('there is a size')
const at = '2026-01-01T00:00:00Z'
const changed = <T extends { metadata: object }>(object: T, metadata: object = { annotations: {} }): T => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
})
const of = (given: Given) => assessmentOf(given).desired

/** What is done, and to what, in short. */
const short = (action: Action): string => {
  switch (action.do) {
    case 'apply':
      return `apply ${action.kind} ${action.draft.metadata.name}`
    case 'delete':
      return `delete ${action.kind} ${action.name}`
    default:
      return action.do
  }
}
const doneFor = (given: Given) => actionsOf(given).map(short)

const [set, budget] = [`apply StatefulSet ${statefulSet.metadata.name}`, `PodDisruptionBudget ${service.metadata.name}`]
const map = `apply ConfigMap ${configuration.metadata.name}`
/** Nothing of it was ever there but its port. */
const never: Given['status'] = { volume: undefined, appliedHash: undefined, size: undefined }
const none: Given['children'] = Object.fromEntries(
  Object.entries(children).map(([name, child]) => [name, name === 'route' ? child : undefined]),
)
const unmade: Given = {
  status: never,
  children: none,
  pod: undefined,
  postgres: undefined,
  rest: { credentials: { state: 'absent' }, certificate: { state: 'absent' } },
}
const certificate = { state: 'due' as const, fingerprint: 'f', issuedAt: 0, isLoaded: false }

test('nothing is done where all is as it is to be', () => {
  expect(actionsOf()).toEqual([])
})

describe('secrets', () => {
  test('are made where they are not there, and nothing that needs them before', () => {
    expect(doneFor(unmade)).toEqual([
      ...['mint-credentials', 'issue-certificate', `apply Service ${service.metadata.name}`],
      `apply NetworkPolicy ${networkPolicy.metadata.name}`,
      ...['apply ConfigMap route-20000', 'create-claim', map],
    ])
  })
  test('that are there are not made again', () => {
    expect(doneFor({ rest: { credentials: { state: 'unreadable', message: 'sealed with another key' } } })).toEqual([])
  })
  test.each<[string, Given['rest'], boolean]>([
    ['that is not there is issued', { certificate: { state: 'absent' } }, true],
    ['that is due is issued', { certificate }, true],
    ['that is due waits for its turn', { certificate: { ...certificate, isQueued: true } }, false],
    ['that is good is left', { certificate: { ...certificate, state: 'good' } }, false],
    ['is for a name in a region, so without one there is none', { certificate, region: undefined }, false],
  ])('a certificate %s', (_, rest, is) => {
    expect(actionsOf({ rest: { ...rest } }).filter(action => action.do === 'issue-certificate')).toEqual(
      is ? [{ do: 'issue-certificate', names: of({}).certificate }] : [],
    )
  })
})

describe('a certificate is for', () => {
  const namesIn = (gateway: { host?: string; externalIpAddress?: string }) => {
    const ports = { first: 20000, last: 29999 }
    const spec = { domain: 'db.test', gateway: { ...gateway, ports } }
    return of({ rest: { region: region && { ...region, spec } } })
  }
  test('what clients call the database by in its region', () => {
    const domain = 'one-5e1d9a52.db.test'
    expect(namesIn({}).certificate).toEqual(serverNames(owner, { domain, host: domain }))
    expect(namesIn({}).endpoint).toEqual({ host: domain, port: 20000 })
    const both = { host: 'gate.test', externalIpAddress: '192.0.2.1' }
    expect(namesIn(both).certificate).toEqual(serverNames(owner, { domain, ...both }))
    expect(namesIn(both).certificate?.dnsNames).not.toContain('localhost')
    expect(namesIn({ host: '127.0.0.1' }).certificate).toMatchObject({
      dnsNames: expect.arrayContaining(['localhost']),
      ipAddresses: ['127.0.0.1'],
    })
    expect(namesIn(both).endpoint).toEqual({ ...both, port: 20000 })
    expect(namesIn(both).domain).toBe(domain)
  })
  test('nothing without a region, where there is no endpoint either', () => {
    const { certificate: names, endpoint, domain } = of({ rest: { region: undefined } })
    expect([names, endpoint, domain]).toEqual([undefined, undefined, undefined])
  })
  test('its region, also before it has a port', () => {
    const { certificate: names, endpoint, domain, route: draft } = of({ route: undefined })
    expect([names, endpoint, domain, draft]).toEqual([of({}).certificate, undefined, of({}).domain, undefined])
  })
})

describe('a claim', () => {
  const size = {
    ...smallSize,
    spec: { ...smallSize.spec, shape: { ...smallSize.spec.shape, storageSize: '2Gi' } },
  }
  const rest = { size, appliedSize: { ...appliedSize, size } }
  const another = { spec: { size: { name: 'large', version: 1 } } }
  const larger = { ...another, rest: { size } }
  const volume = { isMarked: true, isTerminating: false, isRetained: true, isBound: true }
  const bound = {
    ...volume,
    name: 'pv',
    uid: 'pv-uid',
    policyBefore: undefined,
    claim: undefined,
    claimUid: undefined,
    accessModes: [],
    capacity: '1Gi',
    storageClass: '',
    isProvisioned: true,
  }
  const refusal = (changes: Partial<GrowthRefusal>): GrowthRefusal => ({
    ...{ claim: claim.metadata.uid ?? '', storage: '2Gi', message: 'quota', retryAt: 0, isDue: false },
    ...changes,
  })
  const unmarked = changed(claim)
  const own = of({}).claim

  test.each<[string, Given, string[]]>([
    ['is made where none is on record', { ...unmade, rest: {} }, ['create-claim']],
    ['is not made without a region, whose storage it would be of', { ...unmade, rest: { region: undefined } }, []],
    ['is not made without a size', { ...unmade, rest: { size: undefined } }, []],
    ['that is lost is never made again', { children: { claim: undefined } }, []],
    ['gets its marks back', { children: { claim: unmarked } }, ['update-claim']],
    [
      'that is on record gets them whatever it says',
      { children: { claim: unmarked }, rest: { isOrphanClaim: true } },
      ['update-claim'],
    ],
    [
      'that is strange and not on record is left',
      { status: never, children: { claim: unmarked }, rest: { isOrphanClaim: true } },
      [],
    ],
    [
      'that is not the one on record is left',
      { children: { claim: changed(unmarked, { uid: 'another' }) }, pod: { address: undefined } },
      [],
    ],
    ['grows to the size that is asked for', larger, ['grow-claim']],
    ['grows to the size in force, where it is smaller', { rest }, ['grow-claim']],
    ['gets its marks before it grows', { ...larger, children: { claim: unmarked } }, ['update-claim']],
    ['does not grow while that is refused', { ...larger, rest: { ...larger.rest, growthRefusal: refusal({}) } }, []],
    [
      'grows once it is time to ask again',
      { ...larger, rest: { ...larger.rest, growthRefusal: refusal({ isDue: true }) } },
      ['grow-claim'],
    ],
    [
      'grows where something else was refused',
      { ...larger, rest: { ...larger.rest, growthRefusal: refusal({ storage: '3Gi' }) } },
      ['grow-claim'],
    ],
    ['does not grow without a size', { ...another, rest: { size: undefined } }, []],
  ])('%s', (_, given, expected) => {
    expect(doneFor(given).filter(text => text.endsWith('-claim'))).toEqual(expected)
  })

  test('asks for what is lacking, and is otherwise as it was', () => {
    expect(actionsOf(larger)).toContainEqual({
      do: 'grow-claim',
      claim: { ...claim, spec: { ...claim.spec, resources: { requests: { storage: '2Gi' } } } },
    })
    expect(actionsOf({ children: { claim: unmarked } })).toContainEqual({
      do: 'update-claim',
      claim: { ...unmarked, metadata: { ...claim.metadata, annotations: expect.objectContaining(ownerMarks(owner)) } },
    })
    expect(actionsOf({ ...unmade, rest: {} })).toContainEqual({
      do: 'create-claim',
      draft: {
        ...own,
        metadata: {
          ...own?.metadata,
          annotations: expect.not.objectContaining({ 'espalier.dev/system-identifier': expect.anything() }),
        },
      },
    })
  })

  test('of a database that is asked for another size before it has a volume gives way', () => {
    const waiting = { ...claim, status: { phase: 'Pending' } }
    const given = { ...larger, status: never, children: { claim: waiting }, pod: undefined }
    const down = { ...given, children: { claim: waiting, statefulSet: of(given).statefulSet } }
    expect(of(given).statefulSet?.spec?.replicas).toBe(0)
    expect(doneFor(down)).toContain(`delete PersistentVolumeClaim ${claim.metadata.name}`)
  })

  test('grows by itself where it is as full as was said', () => {
    const storage = { autogrow: { atPercent: 80, stepPercent: 25, maxSize: '2Gi' } }
    const given: Given = {
      spec: { storage },
      status: { storage: { capacity: '1Gi', since: at } },
      rest: { volumeUse: 0.9 * 2 ** 30 },
    }
    expect(actionsOf(given)).toEqual([
      {
        do: 'grow-claim',
        claim: { ...claim, spec: { ...claim.spec, resources: { requests: { storage: '1280Mi' } } } },
      },
    ])
    expect(assessmentOf(given).findings.VolumeGrown?.reason).toBe('Growing')
    expect(assessmentOf({}).findings).not.toHaveProperty('VolumeGrown')
  })

  test('that somebody deletes has its volume kept', () => {
    const going = changed(claim, { deletionTimestamp: at })
    const volumes = { bound: { ...bound, isRetained: false }, recorded: undefined, copy: undefined }
    expect(doneFor({ children: { claim: going }, rest: { volumes } })).toEqual(['change-volume'])
  })
})

describe('what Postgres runs in', () => {
  const missing = (name: keyof typeof children): Given => ({ children: { [name]: undefined } })
  test.each<[string, Given, string[]]>([
    ['gets its configuration', missing('configuration'), [map]],
    ['gets the configuration that it is to have', { children: { configuration: changed(configuration) } }, [map]],
    [
      'gets no configuration of a size that is not there',
      { ...missing('configuration'), rest: { size: undefined } },
      [],
    ],
    ['gets its Service', missing('service'), [`apply Service ${service.metadata.name}`]],
    [
      'gets its Service as it is to be',
      { children: { service: changed(service) } },
      [`apply Service ${service.metadata.name}`],
    ],
    ['gets its fence', missing('networkPolicy'), [`apply NetworkPolicy ${service.metadata.name}`]],
    [
      'gets its fence as it is to be',
      { children: { networkPolicy: changed(networkPolicy) } },
      [`apply NetworkPolicy ${service.metadata.name}`],
    ],
    ['gets its StatefulSet', missing('statefulSet'), [set]],
    ['gets its StatefulSet as it is to be', { children: { statefulSet: changed(statefulSet) } }, [set]],
  ])('%s', (_, given, expected) => {
    expect(doneFor({ pod: undefined, ...given })).toEqual(expected)
  })

  const parts = ['configuration', 'credentials', 'certificate', 'networkPolicy'] as const
  test.each(parts)('is not started without its %s', part => {
    const given = { pod: undefined, children: { [part]: undefined, statefulSet: undefined } }
    expect(doneFor(given)).not.toContain(set)
  })
  test.each(parts)('is stopped also without its %s', part => {
    const given = { pod: undefined, spec: { suspended: true }, children: { [part]: undefined } }
    expect(doneFor(given)).toContain(set)
  })
  test('is not made only to be stopped', () => {
    const given = {
      pod: undefined,
      spec: { suspended: true },
      children: { credentials: undefined, statefulSet: undefined },
    }
    expect(doneFor(given)).not.toContain(set)
  })
  test('gets no StatefulSet while its volume comes without a pod', () => {
    const given = { pod: undefined, children: { statefulSet: undefined } }
    expect(doneFor({ ...given, rest: { provisionsWithoutPod: true } })).not.toContain(set)
    expect(doneFor({ ...given, rest: { provisionsWithoutPod: false } })).toContain(set)
  })
  test('is not made without its claim, nor without a size', () => {
    const { statefulSet: _, ...rest } = children
    expect(
      doneFor({ pod: undefined, status: never, children: { claim: undefined, statefulSet: undefined } }),
    ).not.toContain(set)
    expect(
      doneFor({ pod: undefined, children: { ...rest, statefulSet: undefined }, rest: { size: undefined } }),
    ).not.toContain(set)
  })

  describe('has a disruption budget', () => {
    const asked = { podSettings: { ...podSettings, disruptionBudget: true } }
    const desired = of({ rest: asked }).disruptionBudget
    if (desired === undefined) throw new Error('it is asked for')
    const present = changed(desired, { uid: 'budget-uid', deletionTimestamp: undefined })
    test.each<[string, Given, string[]]>([
      ['where that is asked', { rest: asked }, [`apply ${budget}`]],
      ['as it is to be', { rest: asked, children: { disruptionBudget: changed(present) } }, [`apply ${budget}`]],
      ['once', { rest: asked, children: { disruptionBudget: desired } }, []],
      ['no longer than that', { children: { disruptionBudget: present } }, [`delete ${budget}`]],
      ['that goes by itself', { children: { disruptionBudget: changed(present, { deletionTimestamp: at }) } }, []],
    ])('%s', (_, given, expected) => {
      expect(doneFor(given)).toEqual(expected)
    })
    test('of its own pod, and gives up none but that', () => {
      expect(desired.spec).toEqual(disruptionBudgetDraft(owner, { incarnation: 1, byRole: true }).spec)
      expect(of({}).disruptionBudget).toBeUndefined()
      const { name, namespace } = present.metadata
      expect(actionsOf({ children: { disruptionBudget: present } })).toEqual([
        { do: 'delete', kind: 'PodDisruptionBudget', name, namespace, uid: 'budget-uid' },
      ])
    })
  })
})

const shown = { state: 'good' as const, fingerprint: 'f1', issuedAt: 0, isLoaded: false }
const digest = of({}).configurationDigest ?? ''
const stale = { inForce: 'older', onDisk: digest }

describe('in Postgres', () => {
  const good = { certificate: shown }
  const loading = { ...good, keys: { sealingKey: true, authority: true, isChanging: true } }
  test.each<[string, Given, string[]]>([
    ['roles are put in order', { answer: { rolesInOrder: false } }, ['ensure-roles']],
    ['what the platform needs is put in order', { answer: { platformInOrder: false } }, ['ensure-roles']],
    [
      'nothing is by an answer that has been acted on',
      { answer: { rolesInOrder: false }, postgres: { isOutdated: true } },
      [],
    ],
    ['nothing is without an answer', { answer: undefined }, []],
    ['nothing is by a refusal', { answer: { state: 'refused', reason: 'auth', message: 'no' } }, []],
    [
      "the endpoint is closed and nothing else is done where the data are another's",
      { answer: { rolesInOrder: false, systemIdentifier: 'other' } },
      ['apply ConfigMap route-20000'],
    ],
    [
      'nothing is by passwords that are not the present ones',
      { answer: { rolesInOrder: false }, postgres: { mark: 'older' } },
      [],
    ],
    [
      'nothing is by passwords that cannot be read',
      {
        answer: { rolesInOrder: false },
        postgres: { mark: undefined },
        rest: { credentials: { state: 'unreadable', message: '' } },
      },
      [],
    ],
    ['the certificate is read that it does not show', { answer: { certificate: 'f0' }, rest: good }, ['reload']],
    ['none is read that it shows', { answer: { certificate: 'f1' }, rest: good }, []],
    ['none is read where nobody saw what it shows', { answer: { certificate: undefined }, rest: good }, []],
    [
      'none is read that is about to be issued anew',
      { answer: { certificate: 'f0' }, rest: { certificate: { ...shown, state: 'due', isQueued: true } } },
      [],
    ],
    ['its files are read that it has not', { configuration: stale }, ['reload']],
    ['they are not read before they are there', { configuration: { ...stale, onDisk: 'older' } }, []],
    ['they are not read where it cannot take them', { configuration: { ...stale, errors: ['wrong'] } }, []],
    [
      'they are read where others were wrong',
      { configuration: { inForce: 'older', onDisk: digest, errors: [] } },
      ['reload'],
    ],
    ['they are not read where it has a copy only', { configuration: { ...stale, isMounted: false } }, []],
    ['one reload is enough for both', { configuration: stale, answer: { certificate: 'f0' }, rest: good }, ['reload']],
    [
      'it is noted that a certificate is shown, for a new authority',
      { answer: { certificate: 'f1' }, rest: loading },
      ['note-loaded'],
    ],
    [
      'that is noted once',
      { answer: { certificate: 'f1' }, rest: { ...loading, certificate: { ...shown, isLoaded: true } } },
      [],
    ],
    [
      'that is not noted of one that is about to be issued anew',
      {
        answer: { certificate: 'f1' },
        rest: { ...loading, certificate: { ...shown, state: 'due', isQueued: true } },
      },
      [],
    ],
    ['that is not noted of another one', { answer: { certificate: 'f0' }, rest: loading }, ['reload']],
    [
      'that is not noted of none',
      { answer: { certificate: undefined }, rest: { ...loading, certificate: { ...shown, fingerprint: undefined } } },
      [],
    ],
  ])('%s', (_, given, expected) => {
    expect(doneFor(given)).toEqual(expected)
  })

  test.each<[string, Given, unknown[]]>([
    ['is opened with its roles', { answer: { rolesInOrder: false, closed: { inherited: 0 } } }, [{ opens: true }]],
    ['is opened alone where they are in order', { answer: { closed: { inherited: 0 } } }, [{ do: 'open' }]],
    [
      'is opened before it is on record',
      { answer: { rolesInOrder: false, closed: { inherited: 0 } }, status: { volume: undefined } },
      [{ do: 'ensure-roles', opens: true }],
    ],
    [
      "is not opened with something of its source's",
      { answer: { rolesInOrder: false, closed: { inherited: 1 } }, status: { volume: undefined } },
      [{ do: 'detach' }],
    ],
  ])('a closed copy %s', (_, given, expected) => {
    const inPostgres = actionsOf(given).filter(({ do: what }) => ['ensure-roles', 'open', 'detach'].includes(what))
    expect(inPostgres).toMatchObject(expected)
  })

  test('the certificate that is shown is the one that is noted', () => {
    expect(actionsOf({ answer: { certificate: 'f1' }, rest: loading })).toEqual([
      { do: 'note-loaded', fingerprint: 'f1' },
    ])
  })
})

describe('the endpoint', () => {
  const leave = { do: 'leave-port', port: 20000, uid: route.metadata.uid }
  const first = { ...children, route: undefined }
  test.each<[string, Given, unknown[]]>([
    ['claims the port that it had', { route: undefined, children: first }, [{ do: 'claim-port', preferred: 20000 }]],
    [
      'claims any where it had none',
      { route: undefined, status: { endpoint: undefined } },
      [{ do: 'claim-port', preferred: undefined }],
    ],
    ['claims its own where another stands for it', { children: first }, [{ do: 'claim-port', preferred: 20000 }]],
    ['claims none in a region that is not there', { route: undefined, rest: { region: undefined } }, []],
    [
      'leaves a port that is taken by others, before anybody was told of it',
      { status: { volume: undefined }, route: { refused: true } },
      [leave],
    ],
    ['stays where clients expect it', { route: { refused: true } }, []],
    [
      'gets its rules',
      { spec: { ipAllowlist: { rules: [] } } },
      [{ do: 'apply', kind: 'ConfigMap', draft: of({ spec: { ipAllowlist: { rules: [] } } }).route }],
    ],
  ])('%s', (_, given, expected) => {
    expect(actionsOf(given).filter(action => short(action) !== map)).toEqual(expected)
  })
})

describe('Postgres is looked at soon', () => {
  const unready = { conditions: { Ready: { status: 'False' as const } } }
  const unsure = () => ({
    ...noRestarts({ newestTemplate: undefined, image: undefined, configurationDigest: undefined }),
    isUnsure: true,
  })
  const changing = { keys: { sealingKey: true, authority: true, isChanging: true } }
  const since = (startedAt: number | undefined): Given => ({ postgres: undefined, pod: { startedAt } })
  const readyAt = Date.parse(observedOf().instance.status?.conditions?.[0]?.lastTransitionTime ?? '')

  test.each<[string, Given, boolean, typeof noRestarts?]>([
    [
      'where something is wrong, however long it has served',
      { pod: { startedAt: 0 }, answer: { rolesInOrder: false } },
      true,
    ],
    ['not where all is known', {}, false],
    ['where its roles are not in order', { answer: { rolesInOrder: false } }, true],
    ['where its disk is full', { answer: { hasRoom: false } }, true],
    ['where its disk hangs', { answer: { walHangs: true } }, true],
    ['where a login is refused', { answer: { login: 'refused' } }, true],
    ['where its Service does not lead to it', { answer: { login: 'unreachable' } }, true],
    ['where it refuses', { answer: { state: 'refused', reason: 'auth', message: '' } }, true],
    ['where other passwords were compared', { postgres: { mark: 'older' } }, true],
    ['where something was done in it', { postgres: { isOutdated: true } }, true],
    ['where nothing has come in time', { answer: undefined }, true],
    ['where it was started anew', { pod: { run: 'another' } }, true],
    ['not without a pod', { pod: undefined, postgres: undefined }, false],
    ['not before it has an address', { pod: { address: undefined }, answer: undefined }, false],
    ['not when it ends', { pod: { terminating: true }, answer: { hasRoom: false } }, false],
    ['where only it can tell whether a restart brings anything', {}, true, unsure],
    ['where every server waits for this one', { rest: { ...changing, certificate: shown } }, true],
    ['not once it has what they wait for', { rest: { ...changing, certificate: { ...shown, isLoaded: true } } }, false],
    [
      'not for a certificate that is to come',
      { rest: { ...changing, certificate: { ...shown, state: 'due' } } },
      false,
    ],
    ['not for a certificate where nobody waits', { rest: { certificate: shown } }, false],
    ['not by an operator that begins anew and finds it settled', since(readyAt - 1), false],
    ['by an operator that begins anew and finds it started since', since(readyAt), true],
    ['by an operator that begins anew and cannot tell since when it runs', since(undefined), true],
    ['by an operator that begins anew and finds something asked', { ...since(0), rest: { isAtRest: false } }, true],
    ['by an operator that begins anew and finds it not serving', { ...since(0), ...unready }, true],
    ['by an operator that begins anew, at the first', { ...since(0), status: { conditions: [] } }, true],
  ])('%s', (_, given, is, restarts) => {
    expect(awaitsPostgres(observedOf(given), assessmentOf(given, restarts))).toBe(is)
  })
  test('where no passwords can be read, none are compared', () => {
    const rest = { credentials: { state: 'unreadable' as const, message: '' } }
    const awaits = (mark: string | undefined) => {
      const given = { rest, postgres: { mark } }
      return awaitsPostgres(observedOf(given), assessmentOf(given))
    }
    expect([awaits(undefined), awaits(postgres?.mark)]).toEqual([false, true])
  })
})
