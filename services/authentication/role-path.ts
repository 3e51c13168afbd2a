/** The path expression of `roleClaimKey` as a setting. values/role-path.ts parses it. */
import { parseRolePath as parse, type RolePath, RolePathError } from '../../values/role-path.ts'
import { SettingError } from './errors.ts'

/** @throws SettingError */
export function parseRolePath(text: string): RolePath {
  try {
    return parse(text)
  } catch (error) {
    if (error instanceof RolePathError) throw new SettingError('roleClaimKey', error.message)
    throw error
  }
}
