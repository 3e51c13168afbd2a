/** Entry of the gateway's thread: loads modules like bin/espalier.mjs, then runs worker.ts. */
import { existsSync } from 'node:fs'
import module from 'node:module'
import { workerData } from 'node:worker_threads'

const stripped = new URL('../../bin/stripped.mjs', import.meta.url)
if (existsSync(stripped)) await import(stripped.href)
if (workerData.compileCache !== undefined) module.enableCompileCache(workerData.compileCache)
await import('./worker.ts')
