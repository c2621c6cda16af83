// What soapcpp2 makes the SOAP code of a camera from: the device service, and the part of media 1 that finds streams.
#import "soap12.h"
#import "wsse.h"

//gsoap tt  schema namespace: http://www.onvif.org/ver10/schema
//gsoap tt  schema form: qualified
//gsoap tds schema namespace: http://www.onvif.org/ver10/device/wsdl
//gsoap tds schema elementForm: qualified
//gsoap tds schema attributeForm: unqualified
//gsoap tds service name: camera
//gsoap tds service port: http://localhost/onvif/device_service
//gsoap tds service namespace: http://www.onvif.org/ver10/device/wsdl
//gsoap trt schema namespace: http://www.onvif.org/ver10/media/wsdl
//gsoap trt schema elementForm: qualified
//gsoap trt schema attributeForm: unqualified
//gsoap ter schema namespace: http://www.onvif.org/ver10/error

typedef char *xsd__anyURI;
typedef char *ter__unused;
enum xsd__boolean { false_, true_ };

struct tt__Time { int Hour; int Minute; int Second; };
struct tt__Date { int Year; int Month; int Day; };
struct tt__DateTime { struct tt__Time *Time; struct tt__Date *Date; };
struct tt__SystemDateTime { char *DateTimeType; enum xsd__boolean DaylightSavings; struct tt__DateTime *UTCDateTime; };

struct tt__OnvifVersion { int Major; int Minor; };
struct tt__Scope { char *ScopeDef; xsd__anyURI ScopeItem; };
struct tt__NetworkInterfaceInfo { char *Name; char *HwAddress; int MTU; };
struct tt__PrefixedIPv4Address { char *Address; int PrefixLength; };
struct tt__IPv4Configuration { struct tt__PrefixedIPv4Address *FromDHCP 0; enum xsd__boolean DHCP; };
struct tt__IPv4NetworkInterface { enum xsd__boolean Enabled; struct tt__IPv4Configuration *Config; };
struct tt__NetworkInterface {
  @char *token;
  enum xsd__boolean Enabled;
  struct tt__NetworkInterfaceInfo *Info 0;
  struct tt__IPv4NetworkInterface *IPv4 0;
};
struct tt__ServiceAddress { xsd__anyURI XAddr; };
struct tt__Capabilities { struct tt__ServiceAddress *Device 0; struct tt__ServiceAddress *Media 0; };
struct tt__Profile { @char *token; @enum xsd__boolean fixed; char *Name; };
struct tt__MediaUri { xsd__anyURI Uri; enum xsd__boolean InvalidAfterConnect; enum xsd__boolean InvalidAfterReboot; char *Timeout; };
struct tt__Transport { char *Protocol; };
struct tt__StreamSetup { char *Stream; struct tt__Transport *Transport; };
struct tds__Service { xsd__anyURI Namespace; xsd__anyURI XAddr; struct tt__OnvifVersion *Version; };

struct _tds__GetSystemDateAndTime { int unused 0; };
struct _tds__GetSystemDateAndTimeResponse { struct tt__SystemDateTime *SystemDateAndTime; };
struct _tds__GetDeviceInformation { int unused 0; };
struct _tds__GetDeviceInformationResponse {
  char *Manufacturer; char *Model; char *FirmwareVersion; char *SerialNumber; char *HardwareId;
};
struct _tds__GetNetworkInterfaces { int unused 0; };
struct _tds__GetNetworkInterfacesResponse { int __size; struct tt__NetworkInterface *NetworkInterfaces; };
struct _tds__GetScopes { int unused 0; };
struct _tds__GetScopesResponse { int __size; struct tt__Scope *Scopes; };
struct _tds__GetServices { enum xsd__boolean IncludeCapability; };
struct _tds__GetServicesResponse { int __size; struct tds__Service *Service; };
struct _tds__GetCapabilities { int __size; char **Category; };
struct _tds__GetCapabilitiesResponse { struct tt__Capabilities *Capabilities; };
struct _trt__GetProfiles { int unused 0; };
struct _trt__GetProfilesResponse { int __size; struct tt__Profile *Profiles; };
struct _trt__GetStreamUri { struct tt__StreamSetup *StreamSetup; char *ProfileToken; };
struct _trt__GetStreamUriResponse { struct tt__MediaUri *MediaUri; };
struct _trt__GetSnapshotUri { char *ProfileToken; };
struct _trt__GetSnapshotUriResponse { struct tt__MediaUri *MediaUri; };

// By the names of the parameters gSOAP knows the elements of requests.
int __tds__GetSystemDateAndTime(struct _tds__GetSystemDateAndTime *tds__GetSystemDateAndTime, struct _tds__GetSystemDateAndTimeResponse *reply);
int __tds__GetDeviceInformation(struct _tds__GetDeviceInformation *tds__GetDeviceInformation, struct _tds__GetDeviceInformationResponse *reply);
int __tds__GetNetworkInterfaces(struct _tds__GetNetworkInterfaces *tds__GetNetworkInterfaces, struct _tds__GetNetworkInterfacesResponse *reply);
int __tds__GetScopes(struct _tds__GetScopes *tds__GetScopes, struct _tds__GetScopesResponse *reply);
int __tds__GetServices(struct _tds__GetServices *tds__GetServices, struct _tds__GetServicesResponse *reply);
int __tds__GetCapabilities(struct _tds__GetCapabilities *tds__GetCapabilities, struct _tds__GetCapabilitiesResponse *reply);
int __trt__GetProfiles(struct _trt__GetProfiles *trt__GetProfiles, struct _trt__GetProfilesResponse *reply);
int __trt__GetStreamUri(struct _trt__GetStreamUri *trt__GetStreamUri, struct _trt__GetStreamUriResponse *reply);
int __trt__GetSnapshotUri(struct _trt__GetSnapshotUri *trt__GetSnapshotUri, struct _trt__GetSnapshotUriResponse *reply);
