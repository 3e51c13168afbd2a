/** `/ca.pem` is public, and sends at most one request a minute to the cluster. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemNamespace } from '../../crds/index.ts'
import { authorityConfigMap } from '../../sealing/credentials.ts'
import { type Client, startClient } from '../testing/client.ts'

let client: Client
let now = Date.now()
beforeAll(async () => {
  client = await startClient({ now: () => now })
})
afterAll(() => client.close())

const get = () => client.app.inject({ url: '/managed/v1/ca.pem' })
const publish = async (certificate: string) =>
  client.cluster.apply('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: systemNamespace, name: authorityConfigMap },
    data: { 'ca.crt': certificate },
  })

test('causes a 404 while there is no certificate, and then returns the certificate unchanged', async () => {
  expect(await get()).toMatchObject({ statusCode: 404 })
  await publish('-----BEGIN CERTIFICATE-----\none\n')
  const answer = await get()
  expect(answer).toMatchObject({ statusCode: 200, body: '-----BEGIN CERTIFICATE-----\none\n' })
  expect(answer.headers['content-type']).toBe('application/x-pem-file')
})

test('reads the cluster once a minute, for any number of requests', async () => {
  await publish('-----BEGIN CERTIFICATE-----\ntwo\n')
  const answers = await Promise.all(Array.from({ length: 50 }, get))
  expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['-----BEGIN CERTIFICATE-----\none\n']))
  now += 60_000
  expect((await get()).body).toContain('two')
})
