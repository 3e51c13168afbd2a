/**
 * Placed next to `bin/espalier.mjs` in an image. The image's files already have their types removed
 * (images/context.ts), so they run without loading the compiler, which would use about 25 MiB per process.
 */
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'

const root = new URL('../', import.meta.url).href

registerHooks({
  load: (url, context, next) =>
    url.startsWith(root) && url.endsWith('.ts') && !url.includes('/node_modules/')
      ? { format: 'module', source: readFileSync(new URL(url)), shortCircuit: true }
      : next(url, context),
})
