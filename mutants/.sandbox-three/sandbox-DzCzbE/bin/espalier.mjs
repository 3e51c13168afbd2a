#!/usr/bin/env node
// @ts-nocheck
/**
 * The command `espalier`. Node 24 runs our TypeScript as it is; where the Node that started this is older, the one
 * that came with the packages takes over, with the same arguments, signals and exit code.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { leanFlags, servingFlags, withCompileCache } from './lean.mjs'

// The kernel drops what process 1 of a container has no handler for: a command that sets none would outlast its pod.
if (process.pid === 1) {
  for (const [signal, number] of /** @type {const} */ ([
    ['SIGINT', 2],
    ['SIGTERM', 15],
  ])) {
    process.on(signal, () => process.listenerCount(signal) === 1 && process.exit(128 + number))
  }
}

const major = Number(process.versions.node.split('.')[0])

/** What V8 is told for commands that run for weeks beside much larger things. */
const flagsOf = new Map([
  ['operator', leanFlags],
  ['gateway', leanFlags],
  ['rest', servingFlags],
])
const wanted = flagsOf.get(process.argv[2] ?? '') ?? []

if (major >= 24) {
  if (!wanted.every(flag => process.execArgv.includes(flag))) {
    const flags = [...wanted, ...process.execArgv]
    const environment = process.argv[2] === 'rest' ? withCompileCache(process.env) : process.env
    process.execve?.(process.execPath, [process.execPath, ...flags, ...process.argv.slice(1)], environment)
  }
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2))
} else {
  const node = bundledNode()
  if (node === undefined) {
    console.error(`espalier: needs Node 24, this is ${process.versions.node}; run npm ci to install it`)
    process.exit(1)
  }
  const child = spawn(node, [fileURLToPath(import.meta.url), ...process.argv.slice(2)], { stdio: 'inherit' })
  for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2']))
    process.on(signal, () => child.kill(signal))
  child.on('error', error => {
    console.error(`espalier: cannot start Node 24: ${error.message}`)
    process.exit(1)
  })
  child.on('exit', (code, signal) => process.exit(signal === null ? (code ?? 1) : 1))
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
