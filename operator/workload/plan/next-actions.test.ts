/** Tests the next actions for a serving database with one difference, including actions that must not be taken. */

import { describe, expect, test } from 'vitest'
import { serverNames } from '../../endpoint/certificate.ts'
import { disruptionBudgetDraft } from '../../endpoint/disruption-budget.ts'
import type { GrowthRefusal } from '../../member/observed.ts'
import { noRestarts } from '../../member/pod/plan/restart-annotations.ts'
import { ownerAnnotations } from '../../objects/ownership.ts'
import { type Given, reconciledDatabase } from '../../testing/reconciled-database.ts'
import type { Action } from '../actions.ts'
import { awaitsPostgres } from './next-actions.ts'

const { owner, children, observedOf, assessmentOf, actionsOf } = reconciledDatabase()
const { appliedSize, region, podSettings, postgres } = observedOf()
const { claim, statefulSet, service, route, configuration, networkPolicy } = children
const smallSize = appliedSize.size
if (smallSize === undefined) throw new Error('the size is missing')
const at = '2026-01-01T00:00:00Z'
const changed = <T extends { metadata: object }>(object: T, metadata: object = { annotations: {} }): T => ({
  ...object,
  metadata: { ...object.metadata, ...metadata },
})
const of = (given: Given) => assessmentOf(given).desired

/** Actions and their objects, as short texts. */
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
/** Only the port has been reserved. */
const never: Given['status'] = { volume: undefined, appliedHash: undefined, size: undefined }
const none: Given['children'] = Object.fromEntries(
  Object.entries(children).map(([name, child]) => [name, name === 'route' ? child : undefined]),
)
const notCreated: Given = {
  status: never,
  children: none,
  pod: undefined,
  postgres: undefined,
  rest: { credentials: { state: 'absent' }, certificate: { state: 'absent' } },
}
const certificate = { state: 'due' as const, fingerprint: 'f', issuedAt: 0, isLoaded: false }

test('there are no actions if everything has its desired state', () => {
  expect(actionsOf()).toEqual([])
})

describe('secrets', () => {
  test('are created if they do not exist, before any object that needs them', () => {
    expect(doneFor(notCreated)).toEqual([
      ...['mint-credentials', 'issue-certificate', `apply Service ${service.metadata.name}`],
      `apply NetworkPolicy ${networkPolicy.metadata.name}`,
      ...['apply ConfigMap route-20000', 'create-claim', map],
    ])
  })
  test('that exist are not created again', () => {
    expect(doneFor({ rest: { credentials: { state: 'unreadable', message: 'sealed with another key' } } })).toEqual([])
  })
  test.each<[string, Given['rest'], boolean]>([
    ['that does not exist is issued', { certificate: { state: 'absent' } }, true],
    ['that is due is issued', { certificate }, true],
    ['that is due waits for a slot', { certificate: { ...certificate, isQueued: true } }, false],
    ['that is valid is not changed', { certificate: { ...certificate, state: 'good' } }, false],
    ['is not issued without a region, which is part of its names', { certificate, region: undefined }, false],
  ])('a certificate %s', (_, rest, is) => {
    expect(actionsOf({ rest: { ...rest } }).filter(action => action.do === 'issue-certificate')).toEqual(
      is ? [{ do: 'issue-certificate', names: of({}).certificate }] : [],
    )
  })
})

describe('the names in a certificate', () => {
  const namesIn = (gateway: { host?: string; externalIpAddress?: string }) => {
    const ports = { first: 20000, last: 29999 }
    const spec = { domain: 'db.test', gateway: { ...gateway, ports } }
    return of({ rest: { region: region && { ...region, spec } } })
  }
  test('are those that clients use for the database in its region', () => {
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
  test('do not exist without a region', () => {
    const { certificate: names, endpoint, domain } = of({ rest: { region: undefined } })
    expect([names, endpoint, domain]).toEqual([undefined, undefined, undefined])
  })
  test('include its region before it has a port', () => {
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
  const volume = { isLabelled: true, isTerminating: false, isRetained: true, isBound: true }
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
  const unlabelled = changed(claim)
  const own = of({}).claim

  test.each<[string, Given, string[]]>([
    ['is created if none is recorded', { ...notCreated, rest: {} }, ['create-claim']],
    ['is not created without a region, which defines its storage', { ...notCreated, rest: { region: undefined } }, []],
    ['is not created without a size', { ...notCreated, rest: { size: undefined } }, []],
    ['that is lost is never created again', { children: { claim: undefined } }, []],
    ['gets its labels back', { children: { claim: unlabelled } }, ['update-claim']],
    [
      'that is recorded gets its labels, whatever labels it has',
      { children: { claim: unlabelled }, rest: { isOrphanClaim: true } },
      ['update-claim'],
    ],
    [
      'of another owner that is not recorded is not changed',
      { status: never, children: { claim: unlabelled }, rest: { isOrphanClaim: true } },
      [],
    ],
    [
      'that is not the recorded one is not changed',
      { children: { claim: changed(unlabelled, { uid: 'another' }) }, pod: { address: undefined } },
      [],
    ],
    ['grows to the requested size', larger, ['grow-claim']],
    ['grows to the applied size, if it is smaller', { rest }, ['grow-claim']],
    ['gets its labels before it grows', { ...larger, children: { claim: unlabelled } }, ['update-claim']],
    [
      'does not grow until a refused request is due again',
      { ...larger, rest: { ...larger.rest, growthRefusal: refusal({}) } },
      [],
    ],
    [
      'grows if a refused request is due again',
      { ...larger, rest: { ...larger.rest, growthRefusal: refusal({ isDue: true }) } },
      ['grow-claim'],
    ],
    [
      'grows if another request was refused',
      { ...larger, rest: { ...larger.rest, growthRefusal: refusal({ storage: '3Gi' }) } },
      ['grow-claim'],
    ],
    ['does not grow without a size', { ...another, rest: { size: undefined } }, []],
  ])('%s', (_, given, expected) => {
    expect(doneFor(given).filter(text => text.endsWith('-claim'))).toEqual(expected)
  })

  test('gets the missing fields, and is otherwise unchanged', () => {
    expect(actionsOf(larger)).toContainEqual({
      do: 'grow-claim',
      claim: { ...claim, spec: { ...claim.spec, resources: { requests: { storage: '2Gi' } } } },
    })
    expect(actionsOf({ children: { claim: unlabelled } })).toContainEqual({
      do: 'update-claim',
      claim: {
        ...unlabelled,
        metadata: { ...claim.metadata, annotations: expect.objectContaining(ownerAnnotations(owner)) },
      },
    })
    expect(actionsOf({ ...notCreated, rest: {} })).toContainEqual({
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

  test('is replaced if another size is requested before there is a volume', () => {
    const waiting = { ...claim, status: { phase: 'Pending' } }
    const given = { ...larger, status: never, children: { claim: waiting }, pod: undefined }
    const down = { ...given, children: { claim: waiting, statefulSet: of(given).statefulSet } }
    expect(of(given).statefulSet?.spec?.replicas).toBe(0)
    expect(doneFor(down)).toContain(`delete PersistentVolumeClaim ${claim.metadata.name}`)
  })

  test('grows automatically at the configured threshold', () => {
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

  test('that is being deleted has its volume retained', () => {
    const going = changed(claim, { deletionTimestamp: at })
    const volumes = { bound: { ...bound, isRetained: false }, recorded: undefined, copy: undefined }
    expect(doneFor({ children: { claim: going }, rest: { volumes } })).toEqual(['change-volume'])
  })
})

describe('the workload', () => {
  const missing = (name: keyof typeof children): Given => ({ children: { [name]: undefined } })
  test.each<[string, Given, string[]]>([
    ['gets its configuration', missing('configuration'), [map]],
    ['gets its changed configuration', { children: { configuration: changed(configuration) } }, [map]],
    [
      'gets no configuration if its Size does not exist',
      { ...missing('configuration'), rest: { size: undefined } },
      [],
    ],
    ['gets its Service', missing('service'), [`apply Service ${service.metadata.name}`]],
    [
      'gets its changed Service',
      { children: { service: changed(service) } },
      [`apply Service ${service.metadata.name}`],
    ],
    ['gets its network policy', missing('networkPolicy'), [`apply NetworkPolicy ${service.metadata.name}`]],
    [
      'gets its changed network policy',
      { children: { networkPolicy: changed(networkPolicy) } },
      [`apply NetworkPolicy ${service.metadata.name}`],
    ],
    ['gets its StatefulSet', missing('statefulSet'), [set]],
    ['gets its changed StatefulSet', { children: { statefulSet: changed(statefulSet) } }, [set]],
  ])('%s', (_, given, expected) => {
    expect(doneFor({ pod: undefined, ...given })).toEqual(expected)
  })

  const parts = ['configuration', 'credentials', 'certificate', 'networkPolicy'] as const
  test.each(parts)('is not started without its %s', part => {
    const given = { pod: undefined, children: { [part]: undefined, statefulSet: undefined } }
    expect(doneFor(given)).not.toContain(set)
  })
  test.each(parts)('is stopped even without its %s', part => {
    const given = { pod: undefined, spec: { suspended: true }, children: { [part]: undefined } }
    expect(doneFor(given)).toContain(set)
  })
  test('is not created only to be stopped', () => {
    const given = {
      pod: undefined,
      spec: { suspended: true },
      children: { credentials: undefined, statefulSet: undefined },
    }
    expect(doneFor(given)).not.toContain(set)
  })
  test('gets no StatefulSet while its volume is provisioned without a pod', () => {
    const given = { pod: undefined, children: { statefulSet: undefined } }
    expect(doneFor({ ...given, rest: { provisionsWithoutPod: true } })).not.toContain(set)
    expect(doneFor({ ...given, rest: { provisionsWithoutPod: false } })).toContain(set)
  })
  test('is not created without its claim, nor without a size', () => {
    const { statefulSet: _, ...rest } = children
    expect(
      doneFor({ pod: undefined, status: never, children: { claim: undefined, statefulSet: undefined } }),
    ).not.toContain(set)
    expect(
      doneFor({ pod: undefined, children: { ...rest, statefulSet: undefined }, rest: { size: undefined } }),
    ).not.toContain(set)
  })

  describe('a disruption budget', () => {
    const requested = { podSettings: { ...podSettings, disruptionBudget: true } }
    const desired = of({ rest: requested }).disruptionBudget
    if (desired === undefined) throw new Error('the desired state is missing')
    const present = changed(desired, { uid: 'budget-uid', deletionTimestamp: undefined })
    test.each<[string, Given, string[]]>([
      ['that is requested: it is created', { rest: requested }, [`apply ${budget}`]],
      [
        'that was changed: it is applied again',
        { rest: requested, children: { disruptionBudget: changed(present) } },
        [`apply ${budget}`],
      ],
      ['that is unchanged: nothing is done', { rest: requested, children: { disruptionBudget: desired } }, []],
      ['that is no longer requested: it is deleted', { children: { disruptionBudget: present } }, [`delete ${budget}`]],
      [
        'that is being deleted already: nothing is done',
        { children: { disruptionBudget: changed(present, { deletionTimestamp: at }) } },
        [],
      ],
    ])('%s', (_, given, expected) => {
      expect(doneFor(given)).toEqual(expected)
    })
    test('for its own pod, and deletes no other', () => {
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
    ['roles are corrected', { answer: { rolesInOrder: false } }, ['ensure-roles']],
    ["the platform's objects are corrected", { answer: { platformInOrder: false } }, ['ensure-roles']],
    [
      'nothing is corrected by an outdated answer',
      { answer: { rolesInOrder: false }, postgres: { isOutdated: true } },
      [],
    ],
    ['nothing is corrected without an answer', { answer: undefined }, []],
    ['nothing is corrected by a refusal', { answer: { state: 'refused', reason: 'auth', message: 'no' } }, []],
    [
      "the endpoint is closed and nothing else is done where the data are another's",
      { answer: { rolesInOrder: false, systemIdentifier: 'other' } },
      ['apply ConfigMap route-20000'],
    ],
    [
      'nothing is corrected by outdated passwords',
      { answer: { rolesInOrder: false }, postgres: { passwordVersion: 'older' } },
      [],
    ],
    [
      'nothing is corrected by unreadable passwords',
      {
        answer: { rolesInOrder: false },
        postgres: { passwordVersion: undefined },
        rest: { credentials: { state: 'unreadable', message: '' } },
      },
      [],
    ],
    ['a certificate that it does not present is reloaded', { answer: { certificate: 'f0' }, rest: good }, ['reload']],
    ['a certificate that it presents is not reloaded', { answer: { certificate: 'f1' }, rest: good }, []],
    [
      'no certificate is reloaded if the presented one is unknown',
      { answer: { certificate: undefined }, rest: good },
      [],
    ],
    [
      'a certificate that is due for renewal is not reloaded',
      { answer: { certificate: 'f0' }, rest: { certificate: { ...shown, state: 'due', isQueued: true } } },
      [],
    ],
    ['files that it does not have are reloaded', { configuration: stale }, ['reload']],
    ['files are not reloaded before they are mounted', { configuration: { ...stale, onDisk: 'older' } }, []],
    ['files are not reloaded if it refused them', { configuration: { ...stale, errors: ['wrong'] } }, []],
    [
      'files are reloaded if it refused other files',
      { configuration: { inForce: 'older', onDisk: digest, errors: [] } },
      ['reload'],
    ],
    ['files are not reloaded if it has only copies', { configuration: { ...stale, isMounted: false } }, []],
    [
      'one reload serves certificate and files',
      { configuration: stale, answer: { certificate: 'f0' }, rest: good },
      ['reload'],
    ],
    [
      'a presented certificate is recorded, for a new authority',
      { answer: { certificate: 'f1' }, rest: loading },
      ['note-loaded'],
    ],
    [
      'a presented certificate is recorded only once',
      { answer: { certificate: 'f1' }, rest: { ...loading, certificate: { ...shown, isLoaded: true } } },
      [],
    ],
    [
      'a presented certificate is not recorded if it is due for renewal',
      {
        answer: { certificate: 'f1' },
        rest: { ...loading, certificate: { ...shown, state: 'due', isQueued: true } },
      },
      [],
    ],
    [
      "another certificate than the Secret's is not recorded",
      { answer: { certificate: 'f0' }, rest: loading },
      ['reload'],
    ],
    [
      'a presented certificate is not recorded if the Secret has none',
      { answer: { certificate: undefined }, rest: { ...loading, certificate: { ...shown, fingerprint: undefined } } },
      [],
    ],
  ])('%s', (_, given, expected) => {
    expect(doneFor(given)).toEqual(expected)
  })

  test.each<[string, Given, unknown[]]>([
    ['is opened with its roles', { answer: { rolesInOrder: false, closed: { inherited: 0 } } }, [{ opens: true }]],
    ['is only opened if its roles are in order', { answer: { closed: { inherited: 0 } } }, [{ do: 'open' }]],
    [
      'is opened before it is recorded',
      { answer: { rolesInOrder: false, closed: { inherited: 0 } }, status: { volume: undefined } },
      [{ do: 'ensure-roles', opens: true }],
    ],
    [
      'is not opened while it has objects of its source',
      { answer: { rolesInOrder: false, closed: { inherited: 1 } }, status: { volume: undefined } },
      [{ do: 'detach' }],
    ],
  ])('a closed copy %s', (_, given, expected) => {
    const inPostgres = actionsOf(given).filter(({ do: what }) => ['ensure-roles', 'open', 'detach'].includes(what))
    expect(inPostgres).toMatchObject(expected)
  })

  test('the certificate that Postgres presents is the recorded one', () => {
    expect(actionsOf({ answer: { certificate: 'f1' }, rest: loading })).toEqual([
      { do: 'note-loaded', fingerprint: 'f1' },
    ])
  })
})

describe('the endpoint', () => {
  const leave = { do: 'leave-port', port: 20000, uid: route.metadata.uid }
  const first = { ...children, route: undefined }
  test.each<[string, Given, unknown[]]>([
    ['reserves the port that it had', { route: undefined, children: first }, [{ do: 'claim-port', preferred: 20000 }]],
    [
      'reserves any port if it had none',
      { route: undefined, status: { endpoint: undefined } },
      [{ do: 'claim-port', preferred: undefined }],
    ],
    [
      'reserves its own port if its route belongs to another owner',
      { children: first },
      [{ do: 'claim-port', preferred: 20000 }],
    ],
    ['reserves no port if the Region does not exist', { route: undefined, rest: { region: undefined } }, []],
    [
      'releases a port that another process uses, before users know it',
      { status: { volume: undefined }, route: { refused: true } },
      [leave],
    ],
    ['keeps the port that clients know', { route: { refused: true } }, []],
    [
      'gets its rules',
      { spec: { ipAllowlist: { rules: [] } } },
      [{ do: 'apply', kind: 'ConfigMap', draft: of({ spec: { ipAllowlist: { rules: [] } } }).route }],
    ],
  ])('%s', (_, given, expected) => {
    expect(actionsOf(given).filter(action => short(action) !== map)).toEqual(expected)
  })
})

describe('Postgres is probed soon', () => {
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
      'if there is a problem, however long the database has served',
      { pod: { startedAt: 0 }, answer: { rolesInOrder: false } },
      true,
    ],
    ['not if everything is known', {}, false],
    ['if its roles are not in order', { answer: { rolesInOrder: false } }, true],
    ['if its disk is full', { answer: { hasFreeSpace: false } }, true],
    ['if its disk hangs', { answer: { walHangs: true } }, true],
    ['if a login is refused', { answer: { login: 'refused' } }, true],
    ['if its Service does not route to it', { answer: { login: 'unreachable' } }, true],
    ['if it refuses connections', { answer: { state: 'refused', reason: 'auth', message: '' } }, true],
    ['if the last probe compared other passwords', { postgres: { passwordVersion: 'older' } }, true],
    ['if the operator has changed it', { postgres: { isOutdated: true } }, true],
    ['if the last probe timed out', { answer: undefined }, true],
    ['if it was restarted', { pod: { run: 'another' } }, true],
    ['not without a pod', { pod: undefined, postgres: undefined }, false],
    ['not before it has an address', { pod: { address: undefined }, answer: undefined }, false],
    ['not while its pod terminates', { pod: { terminating: true }, answer: { hasFreeSpace: false } }, false],
    ['if only Postgres can report whether a restart would apply a change', {}, true, unsure],
    ['if all other servers wait for its new certificate', { rest: { ...changing, certificate: shown } }, true],
    [
      'not if it already has its new certificate',
      { rest: { ...changing, certificate: { ...shown, isLoaded: true } } },
      false,
    ],
    [
      'not for a certificate that is not issued yet',
      { rest: { ...changing, certificate: { ...shown, state: 'due' } } },
      false,
    ],
    ['not for a certificate that no server waits for', { rest: { certificate: shown } }, false],
    ['not by a new operator that finds the database reconciled', since(readyAt - 1), false],
    ['by a new operator that finds Postgres restarted', since(readyAt), true],
    ["by a new operator that does not know Postgres's start time", since(undefined), true],
    ['by a new operator that finds a new request', { ...since(0), rest: { isAtRest: false } }, true],
    ['by a new operator that finds the database not serving', { ...since(0), ...unready }, true],
    ['by a new operator, if no operator has probed it yet', { ...since(0), status: { conditions: [] } }, true],
  ])('%s', (_, given, is, restarts) => {
    expect(awaitsPostgres(observedOf(given), assessmentOf(given, restarts))).toBe(is)
  })
  test('if the passwords cannot be read, they are not compared', () => {
    const rest = { credentials: { state: 'unreadable' as const, message: '' } }
    const awaits = (passwordVersion: string | undefined) => {
      const given = { rest, postgres: { passwordVersion } }
      return awaitsPostgres(observedOf(given), assessmentOf(given))
    }
    expect([awaits(undefined), awaits(postgres?.passwordVersion)]).toEqual([false, true])
  })
})
