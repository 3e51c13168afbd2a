/**
 * Preloaded into servers of the image `espalier` in pods of the embedded installation: makes `dns.lookup` resolve the
 * cluster's Services, like cluster DNS. The query of this module's URL names the file that the runtime maintains
 * (network/names.ts). Other names are resolved as usual.
 */
import dns from 'node:dns'
import { readFileSync } from 'node:fs'

const file = new URL(import.meta.url).searchParams.get('names') ?? ''
const usual = dns.lookup

/** @param {string} name */
function addressesOf(name) {
  try {
    const lines = readFileSync(file, 'utf8').split('\n')
    return lines.map(line => line.split(' ')).flatMap(([address = '', of]) => (of === name ? [address] : []))
  } catch {
    return []
  }
}

/** @type {(name: string, options: any, callback: any) => void} */
const lookup = (name, given, callback) => {
  const done = typeof given === 'function' ? given : callback
  const options = typeof given === 'number' ? { family: given } : typeof given === 'function' ? {} : given
  const [first, ...others] = name.endsWith('.svc') ? addressesOf(name) : []
  if (first === undefined) return usual(name, options, done)
  const found = [first, ...others].map(address => ({ address, family: 4 }))
  process.nextTick(() => (options.all === true ? done(null, found) : done(null, first, 4)))
}

Object.assign(dns, { lookup })
