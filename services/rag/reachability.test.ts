import { expect, onTestFinished, test } from 'vitest'
import { startProviderDouble } from '../providers/testing/double.ts'
import type { CompletionSettings } from './configuration/types.ts'
import { completionReachability, embeddingReachability } from './reachability.ts'

async function start(more: Partial<CompletionSettings> = {}) {
  const double = await startProviderDouble({ key: 'right' })
  onTestFinished(() => double.stop())
  const common = { model: 'm', apiKey: 'right', headers: {}, timeoutMs: 5_000, attemptTimeoutMs: 5_000 }
  const settings = { ...common, provider: 'openai' as const, baseUrl: `${double.url}/v1`, ...more }
  return { double, settings, probe: (ms = 3_000) => completionReachability(settings)(AbortSignal.timeout(ms)) }
}

test('reports a provider that responds as reachable, also without a list of models', async () => {
  const { probe, double, settings } = await start()
  expect(await probe()).toEqual({ reachable: true })
  const other = completionReachability({ ...settings, baseUrl: `${double.url}/without` })
  expect(await other(AbortSignal.timeout(3_000))).toEqual({ reachable: true })
})

test('reports a refused key, an error and a timeout as unreachable, without the key', async () => {
  const refused = await (await start({ apiKey: 'wrong-key' })).probe()
  expect(refused).toEqual({ reachable: false, error: expect.stringContaining('API key') })
  expect(JSON.stringify(refused)).not.toContain('wrong-key')
  const { probe, double } = await start()
  double.failures.push({ status: 500 })
  expect(await probe()).toMatchObject({ reachable: false })
  double.failures.push('hang')
  expect(await probe(100)).toEqual({ reachable: false, error: 'did not respond in time' })
})

test('requests an embedding only from Voyage', async () => {
  const { double, settings } = await start()
  const check = (provider: 'openai' | 'voyage') => embeddingReachability({ ...settings, provider })
  await check('openai')(AbortSignal.timeout(3_000))
  await check('voyage')(AbortSignal.timeout(3_000))
  expect(double.seen.map(({ path }) => path)).toEqual(['/v1/models', '/v1/embeddings'])
})
