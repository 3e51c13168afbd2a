#!/usr/bin/env node
/**
 * The command `espalier`. Node 24 runs TypeScript directly. An older Node starts the Node 24 of the packages as a child
 * process. It passes on its arguments and signals, and returns the child's exit code. If the older Node is killed, the
 * child stops.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
// A namespace import, because an older Node has no `enableCompileCache` in this module. It needs only `createRequire`.
import module, { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { compileCacheFor, fillingFlags, leanFlags, retrievalFlags, servingFlags } from './lean.mjs'

// The kernel drops signals for which process 1 of a container has no handler. Without this handler, some commands would
// ignore SIGTERM.
if (process.pid === 1) {
  for (const [signal, number] of /** @type {const} */ ([
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ])) {
    process.on(signal, () => process.listenerCount(signal) === 1 && process.exit(128 + number))
  }
}

const major = Number(process.versions.node.split('.')[0])

/** V8 flags for commands that run for weeks beside much larger processes. */
const flagsOf = new Map([
  ['operator', fillingFlags],
  ['gateway', leanFlags],
  ['rest', servingFlags],
  ['mcp', servingFlags],
  ['mcp-bridge', servingFlags],
  ['rag', retrievalFlags],
])
/** A probe exits at once, so a restart with flags that save memory is not worthwhile. */
const isProbe = process.argv.slice(3).some(argument => /^--?ready$/.test(argument))
const wanted = (isProbe ? undefined : flagsOf.get(process.argv[2] ?? '')) ?? []
/** The environment variable in which an older Node passes its process id to the Node 24 that it starts. */
const launcherVariable = 'ESPALIER_LAUNCHER'

if (major >= 24) {
  followLauncher()
  const cache = compileCacheFor(process.env)
  if (!wanted.every(flag => process.execArgv.includes(flag))) {
    const flags = [...wanted, ...process.execArgv]
    // The workers of `rest` are separate processes. They read the directory of the cache from the environment.
    const environment = cache === undefined ? process.env : { ...process.env, NODE_COMPILE_CACHE: cache }
    process.execve?.(process.execPath, [process.execPath, ...flags, ...process.argv.slice(1)], environment)
  }
  const stripped = new URL('./stripped.mjs', import.meta.url)
  if (existsSync(stripped)) await import(stripped.href)
  if (cache !== undefined) module.enableCompileCache(cache)
  // A container image contains a bundle (images/bundle.ts).
  const bundle = new URL('./bundle/main.js', import.meta.url)
  const { main } = await import(existsSync(bundle) ? bundle.href : './main.ts')
  process.exitCode = await main(process.argv.slice(2))
} else {
  const node = bundledNode()
  if (node === undefined) {
    console.error(`espalier: needs Node 24, this is ${process.versions.node}; run npm ci to install it`)
    process.exit(1)
  }
  const cache = compileCacheFor(process.env)
  // The child has these flags from its start, so it does not restart itself. A restart would lose the IPC channel, by
  // which the child detects the end of this process.
  const child = spawn(node, [...wanted, fileURLToPath(import.meta.url), ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: {
      ...process.env,
      ...(cache === undefined ? {} : { NODE_COMPILE_CACHE: cache }),
      [launcherVariable]: String(process.pid),
    },
  })
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']))
    process.on(signal, () => child.kill(signal))
  child.on('error', error => {
    console.error(`espalier: cannot start Node 24: ${error.message}`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 1))
}

/**
 * Stops this process gracefully when the launcher is killed. A killed launcher cannot forward a signal, so this process
 * would keep its port.
 */
function followLauncher() {
  const launcher = Number(process.env[launcherVariable])
  delete process.env[launcherVariable]
  if (Number.isNaN(launcher)) return
  if (launcher !== process.ppid || !process.connected) process.exit(1)
  process.once('disconnect', () => process.kill(process.pid, 'SIGTERM'))
  // The open channel must not prevent the exit of a completed command.
  process.channel?.unref()
}

function bundledNode() {
  try {
    const name = `node-${process.platform}-${process.arch}/package.json`
    const path = createRequire(import.meta.url)
      .resolve(name)
      .replace(/package\.json$/, 'bin/node')
    return existsSync(path) ? path : undefined
  } catch {
    return undefined
  }
}
