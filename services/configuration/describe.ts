/** Prints a configuration in the form of its file, every key with its value, secrets masked. What is printed can be loaded again. */

import { type Field, fields, keys } from '../rest/configuration/keys.ts'
import type { RestConfiguration } from '../rest/configuration/types.ts'
import { MASK, maskConnectionText, maskUserInfo } from './connection-text.ts'
import { type Scalar, writeBinding } from './syntax.ts'

/**
 * In the order of the table, `app.settings.*` at the end; a key that is not set is printed as the empty text that unsets it.
 * Masked: the passwords of URIs, jwt-secret, and every `app.settings.*`, since what is in them only their users know.
 */
export function describeConfiguration(configuration: RestConfiguration): string {
  const lines = fields().map(field => writeBinding(keys[field].name, printed(field, configuration)))
  const appLines = Object.keys(configuration.appSettings).map(name => writeBinding(`app.settings.${name}`, MASK))
  return `${[...lines, ...appLines].join('\n')}\n`
}

function printed(field: Field, configuration: RestConfiguration): Scalar {
  switch (field) {
    case 'dbUri':
      return maskConnectionText(configuration.dbUri)
    case 'openapiServerProxyUri':
      return maskUserInfo(configuration.openapiServerProxyUri ?? '')
    case 'jwtSecret':
      return configuration.jwtSecret === undefined ? '' : MASK
    case 'jwtSecretIsBase64': // of the mask, which is not
      return false
    case 'serverUnixSocketMode':
      return configuration.serverUnixSocketMode.toString(8)
    default:
      return asScalar(configuration[field])
  }
}

function asScalar(value: Scalar | readonly string[] | undefined): Scalar {
  if (value === undefined) return ''
  return typeof value === 'object' ? value.join(', ') : value
}
