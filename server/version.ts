/** The version of the program, from package.json. In a checkout and in an image, package.json is above this folder. */
import packageFile from '../package.json' with { type: 'json' }

export const version: string = packageFile.version
