import { describe, expect, it } from 'vitest'
import { startEffect } from './environment-names.js'

describe('the name of a property', () => {
  it.each([
    ...['LD_PRELOAD', 'LD_AUDIT', 'LD_LIBRARY_PATH', 'GLIBC_TUNABLES', 'GCONV_PATH', 'LOCPATH'],
    ...['MALLOC_TRACE', 'HOSTALIASES', 'RES_OPTIONS', 'TMPDIR', 'FAKEROOT_PRELOAD', '_RLD_LIST'],
    ...['DYLD_INSERT_LIBRARIES', 'LC_ALL', 'TZ', 'HOME', 'XDG_CONFIG_HOME'],
    ...['PATH', 'Path', 'ENV', 'BASH_ENV', 'BASH_FUNC_ls%%', 'BASH_FUNC_x()', 'SHELLOPTS', 'IFS'],
    ...['_JAVA_OPTIONS', 'JAVA_TOOL_OPTIONS', 'JDK_JAVA_OPTIONS', 'CLASSPATH', 'CATALINA_OPTS'],
    ...['DOTNET_STARTUP_HOOKS', 'CORECLR_PROFILER_PATH', 'COMPlus_EnableDiagnostics'],
    ...['NODE_OPTIONS', 'node_options', 'NODE_PATH', 'NODE_EXTRA_CA_CERTS', 'NODE_V8_COVERAGE'],
    ...['NODE_TLS_REJECT_UNAUTHORIZED', 'npm_config_registry'],
    ...['PYTHONPATH', 'PYTHONSTARTUP', 'PERL5OPT', 'PERL5LIB', 'RUBYOPT', 'RUBYLIB', 'GEM_PATH'],
    ...['PHPRC', 'LUA_INIT', 'GODEBUG', 'ERL_FLAGS'],
    ...['GST_PLUGIN_PATH', 'QT_PLUGIN_PATH', 'MY_GENTL64_PATH', 'LIBGL_DRIVERS_PATH'],
    ...['SSL_CERT_FILE', 'SSLKEYLOGFILE', 'OPENSSL_CONF', 'REQUESTS_CA_BUNDLE', 'GIT_SSH_COMMAND'],
    ...['http_proxy', 'HTTPS_PROXY', 'no_proxy', 'all_proxy', 'SSH_ASKPASS'],
    ...['DOCKER_HOST', 'NVIDIA_VISIBLE_DEVICES', 'NOTIFY_SOCKET'],
    ...['KUBECONFIG', 'KUBERNETES_SERVICE_HOST'],
    // The agent sets them, also with the digest of another device.
    ...['AKRI_BROKER_INFO_DIRECTORY', 'AKRI_BROKER_INFO_DIRECTORY_8120FE'],
    ...['A B', 'A\nLD_PRELOAD', 'PATH=/x', `X${'A'.repeat(300)}`],
  ])('%s is refused', (name) => {
    expect(startEffect(name, '/x')).toBeTypeOf('string')
  })

  it.each([
    ...['DEBUG_ECHO_DESCRIPTION', 'ONVIF_DEVICE_SERVICE_URL', 'ONVIF_DEVICE_UUID'],
    ...['UDEV_DEVNODE_0', 'ONVIF_DEVICE_IP_ADDRESS', 'ONVIF_DEVICE_MAC_ADDRESS'],
    ...['OPCUA_DISCOVERY_URL', 'UDEV_DEVPATH', 'USB_RESOURCE_AKRI_SH_UDEV-MOUSE'],
    ...['PCI_RESOURCE_AKRI_SH_UDEV-GPU', 'AKRI_HTTP_DEVICE_ENDPOINT', 'NODE_ID', 'NODE_NAME'],
    ...['SENSOR_URL', 'SSH_HOST', 'MODBUS_PROXY', 'CUDA_VISIBLE_DEVICES', 'PATHS', 'DEVICE_PATH'],
    ...['AZURE_KINECT_SERIAL', 'MONO_MODE', 'GST_CAPS', 'ALSA_DEVICE', 'HOME_ID', 'größe'],
    ...['PM2_5', 'TORCH_LEVEL', 'HELM_ANGLE', 'CARGO_WEIGHT', 'HF_FREQUENCY', 'UV_INDEX'],
    ...['ANT_DEVICE_ID', 'GENICAM_SERIAL', 'MAKE', 'LOADER_ID', 'hip_visible_devices', 'TAPE'],
    // Programs of one field read them.
    ...['ROS_MASTER_URI', 'SPRING_RATE', 'GDAL_DATA', 'MPLBACKEND', 'AWS_REGION', 'LESS', 'MAIL'],
    ...['UR_ROBOT_IP', 'SENSOR_CA_CERT', 'PGA_GAIN', 'R_VALUE', 'TFT_WIDTH', 'PERIOD', 'PHASE'],
  ])('%s is allowed', (name) => {
    expect(startEffect(name, '/x')).toBeUndefined()
  })

  it('does not count if the value is a function of a shell', () => {
    expect(startEffect('SENSOR', '() { :;}; touch /tmp/x')).toMatch(/function/)
  })
})
