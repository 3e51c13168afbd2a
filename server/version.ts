/** The version of the program, from package.json: above this folder in a checkout and in an image. */
import packageFile from '../package.json' with { type: 'json' }

export const version: string = packageFile.version
