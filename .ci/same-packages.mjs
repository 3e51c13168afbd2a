/**
 * Exits with 0 if node_modules has exactly the packages of package-lock.json. Then other changes of package.json, for
 * example of a script, need no new installation.
 */
import { readFileSync } from 'node:fs'

/** @param {string} path @returns {Record<string, { version?: string, integrity?: string, optional?: boolean }>} */
const packagesOf = path => {
  const { '': _root, ...packages } = JSON.parse(readFileSync(path, 'utf8')).packages
  return packages
}

function isSame() {
  const wanted = packagesOf('package-lock.json')
  // npm writes this file at the end of each installation.
  const installed = packagesOf('node_modules/.package-lock.json')
  const names = Object.keys(wanted)
  // Optional packages of other platforms are not installed.
  const isMissing = names.some(name => installed[name] === undefined && wanted[name]?.optional !== true)
  const isForeign = Object.entries(installed).some(
    ([name, { version, integrity }]) => wanted[name]?.version !== version || wanted[name]?.integrity !== integrity,
  )
  return !isMissing && !isForeign
}

try {
  process.exitCode = isSame() ? 0 : 1
} catch {
  // npm never ran here, or was interrupted.
  process.exitCode = 1
}
