import { describe, expect, test } from 'vitest'
import type { ConfigMap, Pod, Secret } from '../../../cluster/index.ts'
import { type Container, type EnvironmentInput, environmentOf } from './environment.ts'
import { filesOf, type Volume } from './projection.ts'
import { type References, referencesOf } from './references.ts'

const pod: Pod = {
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'db-0', namespace: 'n', uid: 'u-1', labels: { tier: 'gold' }, annotations: { 'a/b': 'note' } },
  spec: { containers: [], nodeName: 'node' },
}
const base64 = (text: string): string => Buffer.from(text).toString('base64')
const secret: Secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 's', namespace: 'n' },
  data: { password: base64('/data $(HOME)'), user: base64('app') },
}
const configMap: ConfigMap = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name: 'c', namespace: 'n' },
  data: { 'a.json': '{}', level: 'info' },
}
const references: References = {
  secret: name => (name === 's' ? secret : undefined),
  configMap: name => (name === 'c' ? configMap : undefined),
}
const environment = (container: Partial<Container>, changes: Partial<EnvironmentInput> = {}): Record<string, string> =>
  Object.fromEntries(
    environmentOf({
      pod,
      container: { name: 'main', ...container },
      podIp: '127.9.1.1',
      references,
      image: { path: ['/opt/pg/bin'], env: { FROM_IMAGE: 'yes' } },
      translate: text => text.replaceAll('/data', '/home/volume'),
      home: '/pods/1/home',
      markers: { ESPALIER_RUNTIME_ID: 'r' },
      ...changes,
    }),
  )

describe('environmentOf', () => {
  test("contains nothing of the parent's environment", () => {
    process.env.ESPALIER_TEST_LEAK = 'secret'
    const values = environment({})
    expect(Object.keys(values).sort()).toEqual([
      'ESPALIER_RUNTIME_ID',
      'FROM_IMAGE',
      'HOME',
      'HOSTNAME',
      'PATH',
      'TMPDIR',
    ])
    expect(values.PATH?.split(':')[0]).toBe('/opt/pg/bin')
    delete process.env.ESPALIER_TEST_LEAK
  })
  test('values, references, paths and the downward API', () => {
    const field = (name: string, fieldPath: string) => ({ name, valueFrom: { fieldRef: { fieldPath } } })
    const values = environment({
      env: [
        { name: 'EMPTY' },
        field('POD_IP', 'status.podIP'),
        field('NAME', 'metadata.name'),
        field('UID', 'metadata.uid'),
        field('TIER', "metadata.labels['tier']"),
        field('NOTE', "metadata.annotations['a/b']"),
        { name: 'PGDATA', value: '/data/pgdata' },
        { name: 'LISTEN', value: '$(POD_IP):5432 $(NOPE) $$(POD_IP)' },
        { name: 'SUB', value: '$(PGDATA)/x' },
        { name: 'ESPALIER_RUNTIME_ID', value: 'forged' },
      ],
    })
    expect(values).toMatchObject({
      EMPTY: '',
      POD_IP: '127.9.1.1',
      NAME: 'db-0',
      UID: 'u-1',
      TIER: 'gold',
      NOTE: 'note',
      PGDATA: '/home/volume/pgdata',
      LISTEN: '127.9.1.1:5432 $(NOPE) $(POD_IP)',
      SUB: '/home/volume/pgdata/x',
      ESPALIER_RUNTIME_ID: 'r',
    })
  })
  test('Secrets and ConfigMaps, with unchanged values', () => {
    const values = environment({
      envFrom: [{ secretRef: { name: 's' }, prefix: 'S_' }, { configMapRef: { name: 'absent', optional: true } }],
      env: [
        { name: 'PASSWORD', valueFrom: { secretKeyRef: { name: 's', key: 'password' } } },
        { name: 'LEVEL', valueFrom: { configMapKeyRef: { name: 'c', key: 'level' } } },
        { name: 'MAYBE', valueFrom: { secretKeyRef: { name: 's', key: 'absent', optional: true } } },
      ],
    })
    expect(values).toMatchObject({ S_user: 'app', PASSWORD: '/data $(HOME)', LEVEL: 'info' })
    expect('MAYBE' in values).toBe(false)
  })
  test.each<[string, Partial<Container>]>([
    ['Secret "absent" not found', { envFrom: [{ secretRef: { name: 'absent' } }] }],
    ['Secret "s" has no key "x"', { env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 's', key: 'x' } } }] }],
    ['fieldRef "spec.x" is not', { env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'spec.x' } } }] }],
    ['env valueFrom must be', { env: [{ name: 'A', valueFrom: { resourceFieldRef: { resource: 'limits.cpu' } } }] }],
    ['cannot be passed', { env: [{ name: 'A', value: 'a\0b' }] }],
  ])('refuses: %s', (message, container) => {
    expect(() => environment(container)).toThrow(message)
  })
})

describe('filesOf', () => {
  const files = (volume: Omit<Volume, 'name'>): Record<string, string> =>
    Object.fromEntries(
      [...filesOf({ name: 'v', ...volume }, pod, '127.9.1.1', references)].map(([path, { content, mode }]) => [
        path,
        `${mode.toString(8)} ${content}`,
      ]),
    )
  test('a Secret is readable only by its owner, a ConfigMap has the requested mode', () => {
    expect(files({ secret: { secretName: 's', defaultMode: 0o444 } })).toEqual({
      password: '400 /data $(HOME)',
      user: '400 app',
    })
    expect(files({ secret: { secretName: 's', items: [{ key: 'user', path: 'x/y' }] } })).toEqual({ 'x/y': '600 app' })
    expect(files({ configMap: { name: 'c' } })).toEqual({ 'a.json': '644 {}', level: '644 info' })
  })
  test('a projected volume joins its sources', () => {
    const sources = [
      { secret: { name: 's', items: [{ key: 'user', path: 'user', mode: 0o640 }] } },
      { configMap: { name: 'c', items: [{ key: 'level', path: 'level' }] } },
      { downwardAPI: { items: [{ path: 'ip', fieldRef: { fieldPath: 'status.podIP' } }] } },
    ]
    expect(files({ projected: { sources, defaultMode: 0o440 } })).toEqual({
      user: '600 app',
      level: '440 info',
      ip: '440 127.9.1.1',
    })
  })
  test.each<[string, Omit<Volume, 'name'>]>([
    ['Secret "absent" not found', { secret: { secretName: 'absent' } }],
    ['"s" has no key "x"', { secret: { secretName: 's', items: [{ key: 'x', path: 'x' }] } }],
    ['must be relative', { secret: { secretName: 's', items: [{ key: 'user', path: '../x' }] } }],
    ['must be relative', { secret: { secretName: 's', items: [{ key: 'user', path: '/x' }] } }],
    ['not supported', { projected: { sources: [{ serviceAccountToken: { path: 'token' } }] } }],
  ])('refuses: %s', (message, volume) => {
    expect(() => files(volume)).toThrow(message)
  })
  test('a key that is not a file name is refused', () => {
    const hostile: References = { ...references, secret: () => ({ ...secret, data: { '../../x': '' } }) }
    expect(() => filesOf({ name: 'v', secret: { secretName: 's' } }, pod, '', hostile)).toThrow('is not a valid key')
  })
})

test('referencesOf returns all Secrets and ConfigMaps that a pod uses', () => {
  const names = referencesOf({
    volumes: [
      { name: 'a', secret: { secretName: 'a' } },
      { name: 'b', projected: { sources: [{ configMap: { name: 'b' } }] } },
    ],
    initContainers: [{ name: 'i', envFrom: [{ secretRef: { name: 'c' } }] }],
    containers: [{ name: 'm', env: [{ name: 'X', valueFrom: { configMapKeyRef: { name: 'd', key: 'k' } } }] }],
  })
  expect([...names].sort()).toEqual(['configMap/b', 'configMap/d', 'secret/a', 'secret/c'])
})
