/** `/ca.pem`: public, and never more than a question a minute to the cluster. */
// @ts-nocheck

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

const ask = () => client.app.inject({ url: '/managed/v1/ca.pem' })
const publish = async (certificate: string) =>
  client.cluster.apply('ConfigMap', {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { namespace: systemNamespace, name: authorityConfigMap },
    data: { 'ca.crt': certificate },
  })

test('says that there is none as long as there is none, and gives it, as it is, from then on', async () => {
  expect(await ask()).toMatchObject({ statusCode: 404 })
  await publish('-----BEGIN CERTIFICATE-----\none\n')
  const answer = await ask()
  expect(answer).toMatchObject({ statusCode: 200, body: '-----BEGIN CERTIFICATE-----\none\n' })
  expect(answer.headers['content-type']).toBe('application/x-pem-file')
})

test('asks the cluster once a minute, however many ask', async () => {
  await publish('-----BEGIN CERTIFICATE-----\ntwo\n')
  const answers = await Promise.all(Array.from({ length: 50 }, ask))
  expect(new Set(answers.map(({ body }) => body))).toEqual(new Set(['-----BEGIN CERTIFICATE-----\none\n']))
  now += 60_000
  expect((await ask()).body).toContain('two')
})
